package pgid

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// An ID is a 64-bit ID in the layout of this package, a PostgreSQL bigint. The
// order of IDs is the order of their times, then shards, then sequences.
//
// Its text form is decimal. Its JSON form is a decimal string, because JavaScript
// rounds numbers above 2^53; a JSON number is read as well.
type ID int64

// Shard is the logical shard of the ID, 0 to 8191.
func (id ID) Shard() Shard { return Shard(id>>SeqBits) & MaxShard }

// Seq is the sequence of the ID within its millisecond, 0 to 1023.
func (id ID) Seq() Seq { return Seq(id) & MaxSeq }

// Tick is the ID without its shard.
func (id ID) Tick() Tick { return Tick(int64(id)>>timeBit<<SeqBits | int64(id)&seqMask) }

// Time is the time of the ID under the default epoch, to the millisecond, in UTC.
// For a database with an epoch of its own, use its layout: [Layout.Time].
func (id ID) Time() time.Time { return Layout{}.Time(id) }

// String is the ID in decimal.
func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// A ParseError says why a text is not an ID.
type ParseError struct {
	Text   string // the text, cut to 40 bytes
	Reason string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("pgid: %q is not an ID: %s", e.Text, e.Reason)
}

func parseError(text []byte, reason string) error {
	const most = 40
	if len(text) > most {
		text = append(append([]byte(nil), text[:most-3]...), "..."...)
	}
	return &ParseError{Text: string(text), Reason: reason}
}

// Parse reads an ID in the one form that [ID.String] writes: decimal digits, with a
// minus sign if negative. It refuses everything else with a *[ParseError]: a plus
// sign, leading zeros, spaces, underscores, the empty string, a number outside
// 64 bits.
func Parse(s string) (ID, error) { return parse([]byte(s)) }

func parse(text []byte) (ID, error) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 {
		return 0, parseError(text, "it has no digits")
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, parseError(text, "use decimal digits only")
		}
		if n > (1<<63)/10 {
			return 0, parseError(text, "it does not fit 64 bits")
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case digits[0] == '0' && len(digits) > 1:
		return 0, parseError(text, "it starts with a zero")
	case negative && n == 0:
		return 0, parseError(text, "zero has no sign")
	case negative && n <= 1<<63:
		return ID(-n), nil
	case n < 1<<63:
		return ID(n), nil
	}
	return 0, parseError(text, "it does not fit 64 bits")
}

// MarshalText writes the ID in decimal. It never fails.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// AppendText appends the ID in decimal. It never fails.
func (id ID) AppendText(b []byte) ([]byte, error) { return strconv.AppendInt(b, int64(id), 10), nil }

// UnmarshalText reads what [Parse] reads.
func (id *ID) UnmarshalText(text []byte) error {
	v, err := parse(text)
	if err != nil {
		return err
	}
	*id = v
	return nil
}

// MarshalJSON writes the ID as a decimal string. It never fails.
func (id ID) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt([]byte{'"'}, int64(id), 10)
	return append(b, '"'), nil
}

// UnmarshalJSON reads a string or a number that [Parse] reads. By the convention of
// encoding/json, null leaves the ID as it is.
func (id *ID) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return parseError(data, "it is not a JSON string")
		}
		data = []byte(s)
	}
	return id.UnmarshalText(data)
}
