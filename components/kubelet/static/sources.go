package static

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Runner runs the pods of the node.
type Runner interface {
	// Set hands in a pod that is new or changed.
	Set(pod *v1.Pod)
	// Gone tells that a pod is to end.
	Gone(pod *v1.Pod)
}

// Config is where manifests are, and what is done with their pods.
type Config struct {
	Node string
	// Path is a directory of manifests, or one manifest; "" is none. It is read every FileEvery, and when it changes.
	Path      string
	FileEvery time.Duration
	// URL is a page with a pod or a list of pods, read every URLEvery with the headers in Header; "" is none.
	URL      string
	Header   map[string][]string
	URLEvery time.Duration

	Runner   Runner
	Mirrors  *Mirrors
	Recorder record.EventRecorder
	Clock    clock.WithTicker
}

// Sources follow manifests.
type Sources struct {
	Config
	parser *Parser
	ready  chan struct{}
}

// NewSources makes sources that read nothing before Run.
func NewSources(config Config) *Sources {
	return &Sources{Config: config, parser: NewParser(config.Node), ready: make(chan struct{})}
}

// Ready is closed once each source was read: pods that are not among theirs are no static pods.
func (s *Sources) Ready() <-chan struct{} { return s.ready }

// Run follows the sources until ctx ends. Pods go on.
func (s *Sources) Run(ctx context.Context) {
	var group, first sync.WaitGroup
	start := func(run func(context.Context, func([]*v1.Pod))) {
		first.Add(1)
		set := &pods{Sources: s, known: map[types.UID]*v1.Pod{}}
		seen := sync.OnceFunc(first.Done)
		group.Go(func() {
			defer seen()
			run(ctx, func(list []*v1.Pod) {
				set.replace(ctx, list)
				seen()
			})
		})
	}
	if s.Path != "" {
		start(s.followPath)
	}
	if s.URL != "" {
		start(s.followURL)
	}
	group.Go(func() {
		first.Wait()
		if ctx.Err() == nil {
			s.Mirrors.ready()
			close(s.ready)
		}
	})
	group.Wait()
}

// pods are those of one source. One goroutine uses them.
type pods struct {
	*Sources
	known map[types.UID]*v1.Pod
}

// replace hands on what changed since the last list.
func (p *pods) replace(ctx context.Context, list []*v1.Pod) {
	list = p.unique(ctx, list)
	next := map[types.UID]*v1.Pod{}
	for _, pod := range list {
		next[pod.UID] = pod
	}
	for uid, pod := range p.known {
		if next[uid] == nil {
			klog.FromContext(ctx).Info("Static pod's manifest is gone or has changed: the pod ends", "pod", klog.KObj(pod))
			delete(p.known, uid)
			p.Runner.Gone(pod)
		}
	}
	for _, pod := range list {
		old := p.known[pod.UID]
		if old == nil {
			seen := p.Clock.Now().Format(time.RFC3339Nano)
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, seenAnnotation, seen)
		} else {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, seenAnnotation, old.Annotations[seenAnnotation])
			if equality.Semantic.DeepEqual(old, pod) {
				continue
			}
		}
		p.known[pod.UID] = pod
		p.Mirrors.know(pod)
		p.Runner.Set(pod)
	}
}

// unique drops pods whose name another pod of the source has.
func (p *pods) unique(ctx context.Context, list []*v1.Pod) []*v1.Pod {
	names, kept := map[types.NamespacedName]bool{}, make([]*v1.Pod, 0, len(list))
	for _, pod := range list {
		name := nameOf(pod)
		if names[name] {
			klog.FromContext(ctx).Info("Pod failed validation due to duplicate pod name, ignoring", "pod", klog.KObj(pod))
			p.Recorder.Eventf(pod, v1.EventTypeWarning, "FailedValidation",
				"Error validating pod %s from %s due to duplicate pod name %q, ignoring", pod.Name+"."+pod.Namespace,
				pod.Annotations[sourceAnnotation], pod.Name)
			continue
		}
		names[name] = true
		kept = append(kept, pod)
	}
	return kept
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
