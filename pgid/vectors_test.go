package pgid_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nextid/postgres-ids/pgid"
)

// vectors are golden values that no code of this module computed. The SQL functions
// are held against the same file.
type vectors struct {
	IDs []struct {
		Name        string     `json:"name"`
		Time        time.Time  `json:"time"`
		FlooredTime time.Time  `json:"floored_time"`
		Shard       pgid.Shard `json:"shard"`
		Seq         pgid.Seq   `json:"seq"`
		ID          int64      `json:"id,string"`
	} `json:"ids"`
	Bounds []struct {
		Time time.Time `json:"time"`
		Min  int64     `json:"min,string"`
		Max  int64     `json:"max,string"`
	} `json:"bounds"`
	Errors []struct {
		Name  string     `json:"name"`
		Time  time.Time  `json:"time"`
		Shard pgid.Shard `json:"shard"`
		Seq   pgid.Seq   `json:"seq"`
		Error string     `json:"error"` // SQLSTATE
	} `json:"errors"`
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.IDs) == 0 || len(v.Bounds) == 0 || len(v.Errors) == 0 {
		t.Fatal("testdata/vectors.json has an empty part")
	}
	return v
}

func TestVectors(t *testing.T) {
	t.Parallel()
	var layout pgid.Layout
	for _, v := range readVectors(t).IDs {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			id, err := layout.Encode(v.Time, v.Shard, v.Seq)
			if err != nil || id != pgid.ID(v.ID) {
				t.Errorf("Encode(%s, %d, %d) = %d, %v, want %d", v.Time, v.Shard, v.Seq, id, err, v.ID)
			}
			id = pgid.ID(v.ID)
			want := pgid.Parts{Time: v.FlooredTime, Shard: v.Shard, Seq: v.Seq}
			if got := layout.Decode(id); got != want {
				t.Errorf("Decode(%d) = %v, want %v", id, got, want)
			}
			if got := (pgid.Parts{Time: id.Time(), Shard: id.Shard(), Seq: id.Seq()}); got != want {
				t.Errorf("the methods of %d give %v, want %v", id, got, want)
			}
		})
	}
}

func TestVectorsOfBounds(t *testing.T) {
	t.Parallel()
	var layout pgid.Layout
	for _, v := range readVectors(t).Bounds {
		t.Run(v.Time.Format(time.RFC3339Nano), func(t *testing.T) {
			t.Parallel()
			if got, err := layout.Min(v.Time); err != nil || got != pgid.ID(v.Min) {
				t.Errorf("Min = %d, %v, want %d", got, err, v.Min)
			}
			if got, err := layout.Max(v.Time); err != nil || got != pgid.ID(v.Max) {
				t.Errorf("Max = %d, %v, want %d", got, err, v.Max)
			}
		})
	}
}

func TestVectorsOfErrors(t *testing.T) {
	t.Parallel()
	var layout pgid.Layout
	for _, v := range readVectors(t).Errors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			want := sentinels[v.Error]
			if want == nil {
				t.Fatalf("no sentinel for %s", v.Error)
			}
			if id, err := layout.Encode(v.Time, v.Shard, v.Seq); id != 0 || !errors.Is(err, want) {
				t.Errorf("Encode = %d, %v, want 0, %v", id, err, want)
			}
			if v.Error != "22008" {
				return
			}
			if id, err := layout.Min(v.Time); id != 0 || !errors.Is(err, want) {
				t.Errorf("Min = %d, %v, want 0, %v", id, err, want)
			}
			if id, err := layout.Max(v.Time); id != 0 || !errors.Is(err, want) {
				t.Errorf("Max = %d, %v, want 0, %v", id, err, want)
			}
		})
	}
}
