package bench

import "time"

// A Report is what a benchmark has found.
type Report struct {
	Benchmark  string     `json:"benchmark"` // calls, insert or growth
	Taken      time.Time  `json:"taken"`
	Server     Server     `json:"server"`
	Client     Client     `json:"client"`
	Parameters Parameters `json:"parameters"`
	Groups     []Group    `json:"groups"`
}

// Server is the PostgreSQL that was measured.
type Server struct {
	Version  string            `json:"version"`
	Number   int               `json:"number"` // server_version_num
	Settings map[string]string `json:"settings"`
}

// Client is the machine that measured; where the server is local, also the server's.
type Client struct {
	CPUs int    `json:"cpus"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	Go   string `json:"go"`
}

// Parameters are how much was measured. What a benchmark does not use is 0.
type Parameters struct {
	Rounds   int `json:"rounds"`
	IDs      int `json:"ids,omitempty"`      // drawn in one measurement
	Sessions int `json:"sessions,omitempty"` // at once
	Rows     int `json:"rows,omitempty"`     // inserted in one measurement
	Shards   int `json:"shards,omitempty"`   // of the database, at most
}

// A Group is what was measured in turn, and may be compared.
type Group struct {
	Name   string   `json:"name"`
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Better string   `json:"better"`      // less or more
	X      string   `json:"x,omitempty"` // what varies
	Note   string   `json:"note,omitempty"`
	Series []Series `json:"series"`
}

// A Series is the measurements of one thing: the spread of its values, and of their
// ratios to other series of the group, round by round.
type Series struct {
	Name string `json:"name"`
	X    int    `json:"x,omitempty"`
	Spread
	Ratios map[string]Spread `json:"ratios,omitempty"` // by the name of the other series
}

// The values of Group.Better.
const (
	less = "less"
	more = "more"
)

// Find returns the series of a group by name and x, 0 where nothing varies; nil if
// there is none.
func (r *Report) Find(group, name string, x int) *Series {
	for _, g := range r.Groups {
		for i, s := range g.Series {
			if g.Name == group && s.Name == name && s.X == x {
				return &g.Series[i]
			}
		}
	}
	return nil
}

// add adds a group; its series join those of a group with the same name.
func (r *Report) add(g Group) {
	for i := range r.Groups {
		if r.Groups[i].Name == g.Name {
			r.Groups[i].Series = append(r.Groups[i].Series, g.Series...)
			return
		}
	}
	r.Groups = append(r.Groups, g)
}

// fill makes the group's series of [trial][round], with ratios to each base: the
// series of its name with the same x, else with none.
func (g *Group) fill(trials []trial, values [][]float64, bases ...string) {
	find := func(name string, x int) []float64 {
		var found []float64
		for i, t := range trials {
			if t.name == name && (t.x == x || t.x == 0 && found == nil) {
				found = values[i]
			}
		}
		return found
	}
	for i, t := range trials {
		s := Series{Name: t.name, X: t.x, Spread: spreadOf(values[i])}
		for _, base := range bases {
			if other := find(base, t.x); other != nil && base != t.name {
				if s.Ratios == nil {
					s.Ratios = map[string]Spread{}
				}
				s.Ratios[base] = ratioOf(values[i], other)
			}
		}
		g.Series = append(g.Series, s)
	}
}
