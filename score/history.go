package score

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// resource is what is watched under one path.
type resource struct {
	group, version, name, kind string
}

// String is the resource's name and group, as in deployments.apps.
func (r resource) String() string {
	if r.group == "" {
		return r.name
	}
	return r.name + "." + r.group
}

func (r resource) path() string {
	if r.group == "" {
		return "/api/" + r.version + "/" + r.name
	}
	return "/apis/" + r.group + "/" + r.version + "/" + r.name
}

func (r resource) events() bool { return r.group == "" && r.kind == "Event" }

// head is the part of an object that every entry needs.
type head struct {
	Metadata struct {
		Name              string    `json:"name"`
		Namespace         string    `json:"namespace"`
		UID               string    `json:"uid"`
		ResourceVersion   string    `json:"resourceVersion"`
		CreationTimestamp time.Time `json:"creationTimestamp"`
		OwnerReferences   []Owner   `json:"ownerReferences"`
		ManagedFields     []managed `json:"managedFields"`
	} `json:"metadata"`
}

func (h *head) key() string { return h.Metadata.Namespace + "/" + h.Metadata.Name }

func (h *head) object(of resource) Object {
	return Object{Group: of.group, Kind: of.kind, Namespace: h.Metadata.Namespace, Name: h.Metadata.Name, UID: h.Metadata.UID}
}

// state is the last version of an object that was seen.
type state struct {
	uid, version string
	raw          []byte
}

// history knows the last versions of objects and makes entries of what comes after. It is pure and not safe for
// concurrent use.
type history struct {
	begun   time.Time // objects that are older are no news when their resource is listed for the first time
	objects map[resource]map[string]state
}

func newHistory(begun time.Time) *history {
	return &history{begun: begun.Truncate(time.Second), objects: map[resource]map[string]state{}}
}

// listed takes all objects of a resource, and returns what changed since they were seen last. The first list of a
// resource is where its history begins; with late, objects in it that are new since the recording began are news.
func (h *history) listed(of resource, items []json.RawMessage, late bool) ([]Entry, error) {
	if of.events() && h.objects[of] != nil {
		return h.listedEvents(of, items)
	}
	known, began := h.objects[of]
	h.objects[of] = make(map[string]state, len(items))
	var out []Entry
	for _, raw := range items {
		var now head
		if err := json.Unmarshal(raw, &now); err != nil {
			return out, err
		}
		was, seen := known[now.key()]
		delete(known, now.key())
		if seen && was.uid != now.Metadata.UID {
			out = append(out, removed(of, was.raw))
			seen = false
		}
		h.keep(of, &now, raw)
		switch {
		case seen && was.version != now.Metadata.ResourceVersion:
			out = append(out, changed(of, was.raw, raw)...)
		case !seen && (began || late && !now.Metadata.CreationTimestamp.Before(h.begun)):
			out = append(out, created(of, &now))
		}
	}
	for _, was := range known {
		out = append(out, removed(of, was.raw))
	}
	for i := range out {
		out[i].Missed = true
	}
	return out, nil
}

// listedEvents returns the events that are new or were repeated. Those that expired are no news.
func (h *history) listedEvents(of resource, items []json.RawMessage) ([]Entry, error) {
	var out []Entry
	var failed error
	known := h.objects[of]
	h.objects[of] = make(map[string]state, len(items))
	for _, raw := range items {
		var now head
		if err := json.Unmarshal(raw, &now); err != nil {
			failed = err
			continue
		}
		h.keep(of, &now, raw)
		if was, ok := known[now.key()]; ok && was.version == now.Metadata.ResourceVersion {
			continue
		}
		entries, err := reported(raw, &now)
		if err != nil {
			failed = err
		}
		out = append(out, entries...)
	}
	for i := range out {
		out[i].Missed = true
	}
	return out, failed
}

// seen takes an event of a watch.
func (h *history) seen(of resource, kind string, raw json.RawMessage) ([]Entry, error) {
	var now head
	if err := json.Unmarshal(raw, &now); err != nil {
		return nil, err
	}
	was, known := h.objects[of][now.key()]
	if kind == "DELETED" {
		delete(h.objects[of], now.key())
		if of.events() {
			return nil, nil
		}
		return []Entry{removed(of, raw)}, nil
	}
	if known && was.uid == now.Metadata.UID && was.version == now.Metadata.ResourceVersion {
		return nil, nil // it was listed already
	}
	h.keep(of, &now, raw)
	switch {
	case of.events():
		return reported(raw, &now)
	case !known || was.uid != now.Metadata.UID:
		return []Entry{created(of, &now)}, nil
	}
	return changed(of, was.raw, raw), nil
}

func (h *history) keep(of resource, now *head, raw []byte) {
	kept := state{uid: now.Metadata.UID, version: now.Metadata.ResourceVersion}
	if !of.events() {
		kept.raw = raw
	}
	if h.objects[of] == nil {
		h.objects[of] = map[string]state{}
	}
	h.objects[of][now.key()] = kept
}

func created(of resource, now *head) Entry {
	e := Entry{Object: now.object(of), Verb: Create, Owners: now.Metadata.OwnerReferences,
		ResourceVersion: now.Metadata.ResourceVersion}
	e.setWriters(now.Metadata.ManagedFields)
	for _, o := range e.Owners {
		if o.Controller {
			e.Why = "controlled by " + o.Kind + " " + o.Name
		}
	}
	return e
}

func removed(of resource, raw []byte) Entry {
	var last head
	_ = json.Unmarshal(raw, &last) // it was read before
	return Entry{Object: last.object(of), Verb: Delete, Writers: []Writer{apiServer}, Owners: last.Metadata.OwnerReferences,
		ResourceVersion: last.Metadata.ResourceVersion}
}

// changed compares two versions of an object. One that differs in nothing but its version is an entry, too.
func changed(of resource, before, after []byte) []Entry {
	var old, now head
	was, is := decode(before), decode(after)
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &now) != nil || was == nil || is == nil {
		return nil // both were read before
	}
	changes := diff(was, is)
	e := Entry{Object: now.object(of), Verb: Update, Owners: now.Metadata.OwnerReferences,
		ResourceVersion: now.Metadata.ResourceVersion}
	e.Fields, e.MoreFields = fieldsOf(changes, of.group == "" && of.kind == "Secret")
	e.Why = why(is, changes)
	e.setWriters(writersOf(old.Metadata.ManagedFields, now.Metadata.ManagedFields, changes))
	for _, c := range changes {
		switch path := pathOf(c.path); {
		case path == "metadata.deletionTimestamp" && c.from == nil:
			e.Verb = Terminate
		case path == "spec.nodeName" && of.group == "" && of.kind == "Pod" && c.from == nil:
			e.Writers = []Writer{scheduler(is)} // a binding leaves no managed fields
			e.Verb, e.Why = Update, joined("bound to "+short(c.to), e.Why)
		}
	}
	return []Entry{e}
}

// scheduler is the writer of a pod's binding: its scheduler.
func scheduler(pod map[string]any) Writer {
	spec, _ := pod["spec"].(map[string]any)
	name, _ := spec["schedulerName"].(string)
	return Writer{Manager: program(name), Operation: "Update", Subresource: "binding"}
}

func (e *Entry) setWriters(all []managed) {
	for _, m := range all {
		if w := m.writer(); !slices.Contains(e.Writers, w) {
			e.Writers = append(e.Writers, w)
		}
		if m.Operation == "Apply" && e.Verb == Update {
			e.Verb = Apply
		}
	}
	if e.Writers == nil {
		e.Writers = []Writer{apiServer}
	}
}

func decode(raw []byte) map[string]any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	if d.Decode(&out) != nil {
		return nil
	}
	return out
}

// report is an Event's part that an entry tells.
type report struct {
	InvolvedObject struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Namespace  string `json:"namespace"`
		Name       string `json:"name"`
		UID        string `json:"uid"`
	} `json:"involvedObject"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Count   int    `json:"count"`
	Source  struct {
		Component string `json:"component"`
	} `json:"source"`
	ReportingComponent string `json:"reportingComponent"`
}

// reported is an entry about the object that an Event is about.
func reported(raw []byte, now *head) ([]Entry, error) {
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	writer := r.ReportingComponent
	if writer == "" {
		writer = r.Source.Component
	}
	group, _, grouped := strings.Cut(r.InvolvedObject.APIVersion, "/")
	if !grouped {
		group = ""
	}
	text := r.Reason + ": " + r.Message
	if r.Count > 1 {
		text += fmt.Sprintf(" (%d times)", r.Count)
	}
	about := Object{Group: group, Kind: r.InvolvedObject.Kind, Namespace: r.InvolvedObject.Namespace,
		Name: r.InvolvedObject.Name, UID: r.InvolvedObject.UID}
	return []Entry{{Object: about, Verb: Event, Writers: []Writer{{Manager: program(writer)}}, Why: text,
		ResourceVersion: now.Metadata.ResourceVersion}}, nil
}

// program is the component that writes under a name: the scheduler reports by that of its default profile.
func program(reporter string) string {
	if reporter == "default-scheduler" {
		return "kube-scheduler"
	}
	return reporter
}
