// Package score records who wrote what in a cluster, when and why: every change of every object of any kind. A recorder
// only watches, so what it shows is what any client of any cluster could have seen.
package score

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// APIVersion and Kind identify a Score in a file; fields are only ever added within a version.
const (
	APIVersion = "score.quintet.dev/v1"
	Kind       = "Score"
)

// Score is what was recorded. It is JSON, and may be changed by its owner alone.
type Score struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Started    time.Time `json:"started"`
	Ended      time.Time `json:"ended"`
	// Entries are in the order in which the recorder received them.
	Entries []Entry `json:"entries"`
	// Dropped is how many entries, the oldest, are not there, as there were more than the limit.
	Dropped int `json:"dropped,omitempty"`
	// Gaps are the times in which changes could not be watched; what was found after one is marked as Missed.
	Gaps []Gap `json:"gaps,omitempty"`
	// Unwatched are resources that the recorder could not watch, by why.
	Unwatched map[string]string `json:"unwatched,omitempty"`
}

// Verb is what a change did to an object.
type Verb string

// Verbs. Event is a report about the object, and no change of it. Terminate is the request to delete an object that has
// finalizers or time to end.
const (
	Create    Verb = "create"
	Update    Verb = "update"
	Apply     Verb = "apply"
	Terminate Verb = "terminate"
	Delete    Verb = "delete"
	Event     Verb = "event"
)

// Entry is one change of one object.
type Entry struct {
	// At is when the recorder received it, in ms since Started.
	At     float64 `json:"at"`
	Object Object  `json:"object"`
	Verb   Verb    `json:"verb"`
	// Writers made the change: one, but for changes of which several were Missed.
	Writers []Writer `json:"writers"`
	// Fields are what changed; those of an object that is created are not listed.
	Fields []Field `json:"fields,omitempty"`
	// MoreFields is how many changed beside those in Fields.
	MoreFields int `json:"moreFields,omitempty"`
	// Why is what conditions, phases and events say about the change; "" where they say nothing.
	Why             string  `json:"why,omitempty"`
	Owners          []Owner `json:"owners,omitempty"`
	ResourceVersion string  `json:"resourceVersion,omitempty"`
	// Missed says that the change was found by listing: it took place at some time before, perhaps in several steps.
	Missed bool `json:"missed,omitempty"`
}

// Object names one object.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// String is the object's kind, namespace and name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// Writer is a field manager, as managed fields tell it
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers).
type Writer struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation,omitempty"`
	Subresource string `json:"subresource,omitempty"`
}

// Field is the path of a field, such as status.conditions[Ready].status, with its values where those are short. Values
// of Secrets are never recorded.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Owner is one of an object's owners.
type Owner struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// Gap is a time, in ms since the score's Started, in which a resource was not watched.
type Gap struct {
	Resource string  `json:"resource"`
	From     float64 `json:"from"`
	To       float64 `json:"to"`
	// Lost says that the watch could not go on from where it ended: changes in between may be unseen.
	Lost bool `json:"lost,omitempty"`
}

// Save writes a score into a file as JSON.
func (s *Score) Save(file string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Load reads a score that Save wrote.
func Load(file string) (*Score, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &Score{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if s.APIVersion != APIVersion || s.Kind != Kind {
		return nil, fmt.Errorf("%s: not a score: apiVersion and kind must be %s and %s", file, APIVersion, Kind)
	}
	return s, nil
}
