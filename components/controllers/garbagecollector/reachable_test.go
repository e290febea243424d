package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

var (
	things    = schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}
	thingKind = things.GroupVersion().WithKind("Thing")
)

// server keeps things as an API server does, tells the collector of every change, and holds it to what may be deleted.
type server struct {
	t       *testing.T
	c       *Controller
	events  *record.FakeRecorder
	mu      sync.Mutex
	objects map[string]*metav1.PartialObjectMetadata // by name, which is also the UID
	version int
}

type mapper struct{ meta.RESTMapper }

func (mapper) Reset() {}

func newServer(t *testing.T) *server {
	t.Helper()
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(thingKind, meta.RESTScopeNamespace)
	scheme := fake.NewTestScheme()
	client := fake.NewSimpleMetadataClient(scheme)
	s := &server{t: t, objects: map[string]*metav1.PartialObjectMetadata{}, events: record.NewFakeRecorder(100)}
	for verb, react := range map[string]func(clienttesting.Action) (runtime.Object, error){
		"get": s.get, "delete": s.handleDelete, "patch": s.patch,
	} {
		client.PrependReactor(verb, "things", func(a clienttesting.Action) (bool, runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			object, err := react(a)
			return true, object, err
		})
	}
	c, err := New(runner.Env{Clock: clock.RealClock{}, Events: s.events, Workers: 3},
		Sources{Metadata: client, Mapper: mapper{known}})
	if err != nil {
		t.Fatal(err)
	}
	s.c = c
	c.monitors.running[things] = &monitor{kind: thingKind, stop: func() {}, synced: func() bool { return true }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.loop.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *server) find(name string) (*metav1.PartialObjectMetadata, error) {
	if o := s.objects[name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(things.GroupResource(), name)
}

func (s *server) get(a clienttesting.Action) (runtime.Object, error) {
	get, _ := a.(clienttesting.GetAction)
	o, err := s.find(get.GetName())
	if err != nil {
		return nil, err
	}
	return o.DeepCopy(), nil
}

// store keeps a new state, unless nothing holds an object any more that is to go.
func (s *server) store(o *metav1.PartialObjectMetadata) {
	if o.DeletionTimestamp != nil && len(o.Finalizers) == 0 {
		for _, other := range s.objects {
			for _, ref := range other.OwnerReferences {
				if before := s.objects[o.Name]; string(ref.UID) == o.Name && ptr.Deref(ref.BlockOwnerDeletion, false) &&
					before.DeletionTimestamp != nil && slices.Contains(before.Finalizers, metav1.FinalizerDeleteDependents) {
					s.t.Errorf("%s went before %s, which blocks it", o.Name, other.Name)
				}
			}
		}
		delete(s.objects, o.Name)
		s.c.monitors.notify(s.c.graph.remove(o.UID))
		return
	}
	s.version++
	o.ResourceVersion = fmt.Sprint(s.version)
	s.objects[o.Name] = o
	s.c.monitors.notify(s.c.graph.put(newObject(things, thingKind, o.DeepCopy())))
}

func (s *server) handleDelete(a clienttesting.Action) (runtime.Object, error) {
	d, _ := a.(clienttesting.DeleteActionImpl)
	o, err := s.find(d.Name)
	if err != nil {
		return nil, err
	}
	if *d.DeleteOptions.Preconditions.ResourceVersion != o.ResourceVersion {
		return nil, apierrors.NewConflict(things.GroupResource(), d.Name, fmt.Errorf("changed since"))
	}
	if len(o.OwnerReferences) == 0 {
		s.t.Errorf("%s has no owner, but is collected", o.Name)
	}
	for _, ref := range o.OwnerReferences {
		if owner := s.objects[ref.Name]; owner != nil && owner.UID == ref.UID &&
			(owner.DeletionTimestamp == nil || !slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents)) {
			s.t.Errorf("%s is collected, though its owner %s is there", o.Name, ref.Name)
		}
	}
	s.end(o, *d.DeleteOptions.PropagationPolicy)
	return nil, nil
}

func (s *server) end(o *metav1.PartialObjectMetadata, policy metav1.DeletionPropagation) {
	o = o.DeepCopy()
	now := metav1.Now()
	o.DeletionTimestamp = &now
	o.Finalizers = slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
	switch policy {
	case metav1.DeletePropagationForeground:
		o.Finalizers = append(o.Finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		o.Finalizers = append(o.Finalizers, metav1.FinalizerOrphanDependents)
	}
	s.store(o)
}

func (s *server) patch(a clienttesting.Action) (runtime.Object, error) {
	p, _ := a.(clienttesting.PatchAction)
	o, err := s.find(p.GetName())
	if err != nil {
		return nil, err
	}
	var body struct {
		Metadata struct {
			UID             types.UID                `json:"uid"`
			ResourceVersion string                   `json:"resourceVersion"`
			OwnerReferences *[]metav1.OwnerReference `json:"ownerReferences"`
			Finalizers      *[]string                `json:"finalizers"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(p.GetPatch(), &body); err != nil {
		return nil, err
	}
	if body.Metadata.ResourceVersion != o.ResourceVersion || body.Metadata.UID != o.UID {
		return nil, apierrors.NewConflict(things.GroupResource(), o.Name, fmt.Errorf("changed since"))
	}
	o = o.DeepCopy()
	if body.Metadata.OwnerReferences != nil {
		o.OwnerReferences = *body.Metadata.OwnerReferences
	}
	if body.Metadata.Finalizers != nil {
		o.Finalizers = *body.Metadata.Finalizers
	}
	s.store(o)
	return o.DeepCopy(), nil
}

// put creates a thing with owners, each "name", or "name!" if the thing blocks it.
func (s *server) put(name string, owners ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for _, owner := range owners {
		owner, blocks := strings.CutSuffix(owner, "!")
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "g/v1", Kind: "Thing", Name: owner,
			UID: types.UID(owner), BlockOwnerDeletion: &blocks})
	}
	s.store(o)
}

func (s *server) hold(name string, finalizers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[name].DeepCopy()
	o.Finalizers = finalizers
	s.store(o)
}

func (s *server) remove(name string, policy metav1.DeletionPropagation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(s.objects[name], policy)
}

// state lists the things in order, with owners in parentheses and an exclamation mark behind those that are to go.
func (s *server) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for name, o := range s.objects {
		if o.DeletionTimestamp != nil {
			name += "!"
		}
		var owners []string
		for _, ref := range o.OwnerReferences {
			owners = append(owners, ref.Name)
		}
		if slices.Sort(owners); len(owners) > 0 {
			name += "(" + strings.Join(owners, ",") + ")"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (s *server) expect(want string) {
	s.t.Helper()
	runnertest.Eventually(s.t, func() (bool, string) {
		got := s.state()
		return got == want, got
	})
}

const (
	background = metav1.DeletePropagationBackground
	foreground = metav1.DeletePropagationForeground
	orphan     = metav1.DeletePropagationOrphan
)

func TestCascades(t *testing.T) {
	for name, c := range map[string]struct {
		setup  func(s *server)
		policy metav1.DeletionPropagation
		want   string // after "a" was deleted
	}{
		"background, a chain": {func(s *server) { s.put("b", "a"); s.put("c", "b"); s.put("z") }, background, "z"},
		"background, one of two owners": {func(s *server) { s.put("z"); s.put("b", "a", "z") }, background,
			"b(z) z"},
		"background, both owners": {func(s *server) { s.put("b", "a"); s.put("c", "a", "b") }, background, ""},
		"orphans":                 {func(s *server) { s.put("b", "a!"); s.put("c", "b!") }, orphan, "b c(b)"},
		"orphans with another owner": {func(s *server) { s.put("z"); s.put("b", "a", "z") }, orphan,
			"b(z) z"},
		"foreground, a chain":      {func(s *server) { s.put("b", "a!"); s.put("c", "b!") }, foreground, ""},
		"foreground, not blocking": {func(s *server) { s.put("b", "a"); s.put("c", "b") }, foreground, ""},
		"foreground, another owner": {func(s *server) { s.put("z"); s.put("b", "a!", "z!") }, foreground,
			"b(z) z"},
		"foreground, a circle": {func(s *server) {
			s.put("b", "a!")
			s.mu.Lock()
			o := s.objects["a"].DeepCopy()
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "g/v1", Kind: "Thing", Name: "b", UID: "b",
				BlockOwnerDeletion: ptr.To(true)}}
			s.store(o)
			s.mu.Unlock()
		}, foreground, ""},
		"foreground, blocked": {func(s *server) {
			s.put("b", "a!")
			s.put("c", "a")
			s.hold("b", "x.dev/y")
			s.hold("c", "x.dev/y")
		}, foreground, "a! b!(a) c!(a)"},
		"a dependent that orphans its own": {func(s *server) {
			s.put("b", "a")
			s.hold("b", metav1.FinalizerOrphanDependents)
			s.put("c", "b")
		}, background, "c"},
		"a dependent made in the foreground": {func(s *server) {
			s.put("b", "a")
			s.hold("b", metav1.FinalizerDeleteDependents)
			s.put("c", "b!")
		}, background, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.put("a")
			c.setup(s)
			s.remove("a", c.policy)
			s.expect(c.want)
		})
	}
}

// TestForegroundGoesWhenUnblocked follows one that is blocked by a thing with a finalizer, and not by one that doesn't
// block.
func TestForegroundGoesWhenUnblocked(t *testing.T) {
	s := newServer(t)
	s.put("owner")
	s.put("blocks", "owner!")
	s.put("lax", "owner")
	s.hold("blocks", "x.dev/y")
	s.hold("lax", "x.dev/y")
	s.remove("owner", foreground)
	s.expect("blocks!(owner) lax!(owner) owner!")
	s.hold("blocks")
	s.expect("lax!(owner)")
	s.hold("lax")
	s.expect("")
}

// TestLateDependents: a thing whose owner never was, or is another of that name by now, is garbage.
func TestLateDependents(t *testing.T) {
	s := newServer(t)
	s.put("a", "never")
	s.expect("")
	s.put("owner")
	s.put("b", "owner")
	s.mu.Lock()
	renewed := s.objects["b"].DeepCopy()
	renewed.OwnerReferences[0].UID = "before"
	s.store(renewed)
	s.mu.Unlock()
	s.expect("owner")
}

// TestExactlyTheUnreachable deletes things of random graphs with random policies: what is left is what has an owner
// left,
// or never had one, and the server checks each deletion on its own.
func TestExactlyTheUnreachable(t *testing.T) {
	policies := []metav1.DeletionPropagation{background, foreground, orphan}
	for seed := range uint64(25) {
		random := rand.New(rand.NewPCG(seed, 7))
		s := newServer(t)
		owners := map[string][]string{}
		var names []string
		for i := range 12 {
			name := fmt.Sprintf("t%02d", i)
			var refs []string
			for _, j := range random.Perm(i)[:min(i, random.IntN(3))] {
				owners[name] = append(owners[name], names[j])
				refs = append(refs, names[j]+[]string{"", "!"}[random.IntN(2)])
			}
			s.put(name, refs...)
			names = append(names, name)
		}
		for range 4 {
			name := names[random.IntN(len(names))]
			if _, there := owners[name]; !there && !slices.Contains(names, name) {
				continue
			}
			policy := policies[random.IntN(3)]
			s.remove(name, policy)
			names = model(names, owners, name, policy)
			s.expect(show(names, owners))
			if len(names) == 0 {
				break
			}
		}
	}
}

// model is the documented rule: what has owners, all of which are gone, goes too; an owner that orphans takes its
// references along.
func model(names []string, owners map[string][]string, gone string, policy metav1.DeletionPropagation) []string {
	left := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == gone })
	delete(owners, gone)
	for _, n := range slices.Clone(left) {
		if !slices.Contains(owners[n], gone) {
			continue
		}
		if len(owners[n]) == 1 && policy != metav1.DeletePropagationOrphan {
			left = model(left, owners, n, background)
			continue
		}
		owners[n] = slices.DeleteFunc(slices.Clone(owners[n]), func(o string) bool { return o == gone })
	}
	return left
}

func show(names []string, owners map[string][]string) string {
	var all []string
	for _, n := range names {
		if of := slices.Sorted(slices.Values(owners[n])); len(of) > 0 {
			n += "(" + strings.Join(of, ",") + ")"
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
