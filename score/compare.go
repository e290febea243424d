package score

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Comparison of two scores, object by object. Pairs of numbers and texts are those of the first and the second score.
type Comparison struct {
	// Objects are all that either score has, in the order of the first score, then of the second.
	Objects []Compared `json:"objects"`
	// Took is how long the recordings were, in ms, and Entries how many entries they have.
	Took    [2]float64 `json:"took"`
	Entries [2]int     `json:"entries"`
	// Dropped are the entries that are not there, and keep the comparison from being complete.
	Dropped [2]int `json:"dropped"`
}

// Compared is an object of both scores, or of one.
type Compared struct {
	// Object names it, with * for each generated part of a name, and a number where several are named alike.
	Object string `json:"object"`
	// In tells which of the scores have it.
	In [2]bool `json:"in"`
	// Writes counts changes by writer; events are none.
	Writes [2]map[string]int `json:"writes"`
	// Order is who changed it, one after another, without repetitions.
	Order [2][]string `json:"order"`
	// Events are the reasons of those about it, in the order of their names.
	Events [2][]string `json:"events"`
	// Took is the time from its first change to its last, in ms.
	Took [2]float64 `json:"took"`
	// Differences say in words in what the two differ; there are none for objects that are alike.
	Differences []string `json:"differences,omitempty"`
}

// Differing are the objects that are not alike in both scores.
func (c *Comparison) Differing() []Compared {
	return slices.DeleteFunc(slices.Clone(c.Objects), func(o Compared) bool { return len(o.Differences) == 0 })
}

// What counts as a difference of durations: at least so many times as long, and by so many ms.
const (
	longerTimes = 2
	longerBy    = 500
)

// Compare aligns the objects of two scores by kind, namespace and name, but for objects of the kinds to ignore. Names
// that the API server or a controller generates differ in each run: what is generated of them is not compared, and
// objects with names that are alike then are aligned in the order in which they came.
func Compare(a, b *Score, ignore ...string) *Comparison {
	c := &Comparison{Entries: [2]int{len(a.Entries), len(b.Entries)}, Dropped: [2]int{a.Dropped, b.Dropped}}
	var order []string
	all := map[string]*Compared{}
	for side, s := range []*Score{a, b} {
		c.Took[side] = float64(s.Ended.Sub(s.Started).Milliseconds())
		for _, group := range s.objects(ignore) {
			o := all[group.name]
			if o == nil {
				o = &Compared{Object: group.name}
				all[group.name] = o
				order = append(order, group.name)
			}
			o.take(side, group.entries)
		}
	}
	for _, name := range order {
		all[name].compare()
		c.Objects = append(c.Objects, *all[name])
	}
	return c
}

// objectEntries are the entries of one object.
type objectEntries struct {
	name    string
	entries []Entry
}

// objects are the entries by object, in the order of the first of each.
func (s *Score) objects(ignore []string) []objectEntries {
	var out []objectEntries
	at, alike := map[string]int{}, map[string]int{}
	for _, e := range s.Entries {
		if slices.Contains(ignore, e.Object.Kind) {
			continue
		}
		id := e.Object.UID
		if id == "" {
			id = e.Object.Group + e.Object.String()
		}
		i, ok := at[id]
		if !ok {
			i = len(out)
			at[id] = i
			name := normalized(e.Object)
			if alike[name]++; alike[name] > 1 {
				name = fmt.Sprintf("%s #%d", name, alike[name])
			}
			out = append(out, objectEntries{name: name})
		}
		out[i].entries = append(out[i].entries, e)
	}
	return out
}

// generated are the ends of names that differ in each run: those of generateName, the hashes of templates, the API
// servers' identities and UIDs (https://kubernetes.io/docs/reference/using-api/api-concepts/#generated-values).
var generated = []*regexp.Regexp{
	regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}$`),
	regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}$`),
	regexp.MustCompile(`-[a-z2-7]{26}$`),
	regexp.MustCompile(`-?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`),
}

func withoutGenerated(name string) string {
	end := ""
	for _, g := range generated {
		if at := g.FindStringIndex(name); at != nil {
			name, end = name[:at[0]], end+"-*"
		}
	}
	return name + end
}

func normalized(o Object) string {
	o.Name, o.Namespace = withoutGenerated(o.Name), withoutGenerated(o.Namespace)
	return o.String()
}

func (o *Compared) take(side int, entries []Entry) {
	o.In[side] = true
	o.Writes[side] = map[string]int{}
	o.Took[side] = entries[len(entries)-1].At - entries[0].At
	for _, e := range entries {
		if e.Verb == Event {
			reason, _, _ := strings.Cut(e.Why, ":")
			o.Events[side] = append(o.Events[side], reason)
			continue
		}
		writer := e.writers()
		o.Writes[side][writer]++
		step := writer
		if e.Verb != Update && e.Verb != Apply {
			step += " (" + string(e.Verb) + ")"
		}
		if order := o.Order[side]; len(order) == 0 || order[len(order)-1] != step {
			o.Order[side] = append(order, step)
		}
	}
	slices.Sort(o.Events[side])
	o.Events[side] = slices.Compact(o.Events[side])
}

func (o *Compared) compare() {
	add := func(format string, args ...any) { o.Differences = append(o.Differences, fmt.Sprintf(format, args...)) }
	for side, name := range []string{"first", "second"} {
		if o.In[side] && !o.In[1-side] {
			add("only in the %s score", name)
			return
		}
	}
	writers := maps.Clone(o.Writes[0])
	maps.Copy(writers, o.Writes[1])
	sameWriters := true
	for _, writer := range slices.Sorted(maps.Keys(writers)) {
		switch first, second := o.Writes[0][writer], o.Writes[1][writer]; {
		case first == second:
			continue
		case first == 0 || second == 0:
			sameWriters = false
			add("written by %s %s and %s", writer, times(first), times(second))
		default:
			add("%s wrote %s and %s", writer, times(first), times(second))
		}
	}
	if sameWriters && !slices.Equal(o.Order[0], o.Order[1]) {
		add("order: %s; and: %s", strings.Join(o.Order[0], ", "), strings.Join(o.Order[1], ", "))
	}
	for side, name := range []string{"first", "second"} {
		if alone := without(o.Events[side], o.Events[1-side]); len(alone) > 0 {
			add("events only in the %s score: %s", name, strings.Join(alone, ", "))
		}
	}
	short, long := min(o.Took[0], o.Took[1]), max(o.Took[0], o.Took[1])
	if long >= longerTimes*short && long-short >= longerBy {
		add("took %s and %s", milliseconds(o.Took[0]), milliseconds(o.Took[1]))
	}
}

func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func milliseconds(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
