package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nextid/postgres-ids/pgid"
)

// shardRange is the shards from first to last, both included.
type shardRange struct {
	first, last pgid.Shard
}

func (r shardRange) size() int { return int(r.last-r.first) + 1 }

// parseRanges reads arguments such as 5, 0-3 and 0-3,7. The result ascends, without
// overlap; neighbours are one range.
func parseRanges(args []string) ([]shardRange, error) {
	var ranges []shardRange
	for _, arg := range args {
		for part := range strings.SplitSeq(arg, ",") {
			r, err := parseRange(part)
			if err != nil {
				return nil, err
			}
			ranges = append(ranges, r)
		}
	}
	slices.SortFunc(ranges, func(a, b shardRange) int { return int(a.first - b.first) })
	var merged []shardRange
	for _, r := range ranges {
		if n := len(merged); n > 0 && r.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, r.last)
			continue
		}
		merged = append(merged, r)
	}
	return merged, nil
}

func parseRange(part string) (shardRange, error) {
	from, to, isRange := strings.Cut(part, "-")
	first, err := parseShard(from)
	if err != nil {
		return shardRange{}, fmt.Errorf("%q does not name shards: use numbers from 0 to %d, as in 5 or 0-15 or 0-3,7", part, pgid.MaxShard)
	}
	if !isRange {
		return shardRange{first, first}, nil
	}
	last, err := parseShard(to)
	if err != nil {
		return shardRange{}, fmt.Errorf("%q does not name shards: use numbers from 0 to %d, as in 5 or 0-15 or 0-3,7", part, pgid.MaxShard)
	}
	if last < first {
		return shardRange{}, fmt.Errorf("%q runs backwards: use %d-%d", part, last, first)
	}
	return shardRange{first, last}, nil
}

func parseShard(text string) (pgid.Shard, error) {
	n, err := strconv.ParseUint(text, 10, 13)
	return pgid.Shard(n), err
}
