package score

import (
	"bytes"
	"encoding/json"
	"errors"
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

// head is the metadata of an object, which every entry needs.
type head struct {
	Name              string    `json:"name"`
	Namespace         string    `json:"namespace"`
	UID               string    `json:"uid"`
	ResourceVersion   string    `json:"resourceVersion"`
	CreationTimestamp time.Time `json:"creationTimestamp"`
	OwnerReferences   []Owner   `json:"ownerReferences"`
	ManagedFields     []managed `json:"managedFields"`
}

// headOf reads an object up to the end of its metadata. What comes after, which is most of it, is not looked at. raw
// must not change as long as the head is used.
func headOf(raw []byte) (head, error) {
	if h, ok := scanHead(raw); ok {
		return h, nil
	}
	return decodeHead(raw)
}

func decodeHead(raw []byte) (h head, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return h, errors.Join(err, errNoObject)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return h, err
		}
		if name == "metadata" {
			return h, d.Decode(&h)
		}
		var other json.RawMessage
		if err := d.Decode(&other); err != nil {
			return h, err
		}
	}
	return h, errNoObject
}

var errNoObject = errors.New("not an object with metadata")

func (h *head) key() string { return h.Namespace + "/" + h.Name }

func (h *head) object(of resource) Object {
	return Object{Group: of.group, Kind: of.kind, Namespace: h.Namespace, Name: h.Name, UID: h.UID}
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
		now, err := headOf(raw)
		if err != nil {
			return out, err
		}
		was, seen := known[now.key()]
		delete(known, now.key())
		if seen && was.uid != now.UID {
			out = append(out, removed(of, was.raw))
			seen = false
		}
		h.keep(of, &now, raw)
		switch {
		case seen && was.version != now.ResourceVersion:
			out = append(out, changed(of, was.raw, raw)...)
		case !seen && (began || late && !now.CreationTimestamp.Before(h.begun)):
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
		now, err := headOf(raw)
		if err != nil {
			failed = err
			continue
		}
		h.keep(of, &now, raw)
		if was, ok := known[now.key()]; ok && was.version == now.ResourceVersion {
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
	now, err := headOf(raw)
	if err != nil {
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
	if known && was.uid == now.UID && was.version == now.ResourceVersion {
		return nil, nil // it was listed already
	}
	h.keep(of, &now, raw)
	switch {
	case of.events():
		return reported(raw, &now)
	case !known || was.uid != now.UID:
		return []Entry{created(of, &now)}, nil
	}
	return changed(of, was.raw, raw), nil
}

func (h *history) keep(of resource, now *head, raw []byte) {
	kept := state{uid: now.UID, version: now.ResourceVersion}
	if !of.events() {
		kept.raw = raw
	}
	if h.objects[of] == nil {
		h.objects[of] = map[string]state{}
	}
	h.objects[of][now.key()] = kept
}

func created(of resource, now *head) Entry {
	e := Entry{Object: now.object(of), Verb: Create, Owners: now.OwnerReferences,
		ResourceVersion: now.ResourceVersion}
	e.setWriters(now.ManagedFields)
	for _, o := range e.Owners {
		if o.Controller {
			e.Why = "controlled by " + o.Kind + " " + o.Name
		}
	}
	return e
}

func removed(of resource, raw []byte) Entry {
	last, _ := headOf(raw) // it was read before
	return Entry{Object: last.object(of), Verb: Delete, Writers: []Writer{apiServer}, Owners: last.OwnerReferences,
		ResourceVersion: last.ResourceVersion}
}

// changed compares two versions of an object. One that differs in nothing but its version is an entry, too.
func changed(of resource, before, after []byte) []Entry {
	old, _ := headOf(before) // both were read before
	now, _ := headOf(after)
	was, is := decode(before), decode(after)
	changes := diff(was, is)
	e := Entry{Object: now.object(of), Verb: Update, Owners: now.OwnerReferences,
		ResourceVersion: now.ResourceVersion}
	e.Fields, e.MoreFields = fieldsOf(changes, of.group == "" && of.kind == "Secret")
	e.Why = why(is, changes)
	e.setWriters(writersOf(old.ManagedFields, now.ManagedFields, changes))
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
		ResourceVersion: now.ResourceVersion}}, nil
}

// program is the component that writes under a name: the scheduler reports by that of its default profile.
func program(reporter string) string {
	if reporter == "default-scheduler" {
		return "kube-scheduler"
	}
	return reporter
}
