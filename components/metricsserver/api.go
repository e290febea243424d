package metricsserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/metricsserver/usage"
)

// api serves metrics.k8s.io/v1beta1.
type api struct {
	nodes   corelisters.NodeLister
	pods    cache.GenericLister // of the metadata
	state   func() *usage.State
	clock   clock.PassiveClock
	metrics *metrics
}

const prefix = "/apis/" + v1beta1.GroupName + "/v1beta1"

// handler serves the paths of the API.
func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, get := range map[string]func(*http.Request) (runtime.Object, error){
		"/apis":                                 a.groups,
		"/apis/" + v1beta1.GroupName:            a.group,
		prefix:                                  a.resources,
		prefix + "/nodes":                       a.listNodes,
		prefix + "/nodes/{name}":                a.getNode,
		prefix + "/pods":                        a.listPods,
		prefix + "/namespaces/{namespace}/pods": a.listPods,
		prefix + "/namespaces/{namespace}/pods/{name}": a.getPod,
	} {
		for _, slash := range []string{"", "/{$}"} {
			mux.HandleFunc(pattern+slash, func(w http.ResponseWriter, r *http.Request) { serveObject(w, r, get) })
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerError(w, r, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, v1beta1.Resource(""), "", "",
			0, true))
	})
	return mux
}

func serveObject(w http.ResponseWriter, r *http.Request, get func(*http.Request) (runtime.Object, error)) {
	as, err := negotiate(r)
	if err != nil {
		answerError(w, r, err)
		return
	}
	object, err := read(r, get)
	if err != nil {
		answerError(w, r, err)
		return
	}
	as.answer(w, r, http.StatusOK, object)
}

// read refuses what is not a get or a list.
func read(r *http.Request, get func(*http.Request) (runtime.Object, error)) (runtime.Object, error) {
	watch := r.URL.Query().Get("watch")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return nil, methodNotSupported(r.Method)
	case watch == "true" || watch == "1":
		return nil, methodNotSupported("watch")
	}
	return get(r)
}

func methodNotSupported(method string) error {
	err := apierrors.NewMethodNotSupported(v1beta1.Resource(""), method)
	err.ErrStatus.Message = "the server does not allow this method on the requested resource"
	return err
}

func (a *api) groups(*http.Request) (runtime.Object, error) {
	return &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group()},
	}, nil
}

func group() metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: v1beta1.SchemeGroupVersion.String(), Version: "v1beta1"}
	return metav1.APIGroup{Name: v1beta1.GroupName, Versions: []metav1.GroupVersionForDiscovery{version},
		PreferredVersion: version}
}

func (a *api) group(*http.Request) (runtime.Object, error) {
	g := group()
	g.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	return &g, nil
}

func (a *api) resources(*http.Request) (runtime.Object, error) {
	return &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: v1beta1.SchemeGroupVersion.String(),
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}},
			{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: metav1.Verbs{"get", "list"}},
		},
	}, nil
}

// selection is what a list is limited to.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

func selectionOf(query url.Values) (selection, error) {
	s := selection{}
	var err error
	if s.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return s, apierrors.NewBadRequest(fmt.Sprintf("unable to parse labelSelector: %v", err))
	}
	if s.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return s, apierrors.NewBadRequest(fmt.Sprintf("unable to parse fieldSelector: %v", err))
	}
	for _, requirement := range s.fields.Requirements() {
		if _, _, err := runtime.DefaultMetaV1FieldSelectorConversion(requirement.Field, requirement.Value); err != nil {
			return s, apierrors.NewBadRequest(err.Error())
		}
	}
	return s, nil
}

func (s selection) matches(object metav1.Object) bool {
	return s.labels.Matches(labels.Set(object.GetLabels())) && s.fields.Matches(fields.Set{
		metav1.ObjectNameField: object.GetName(), "metadata.namespace": object.GetNamespace(),
	})
}

func (a *api) listNodes(r *http.Request) (runtime.Object, error) {
	selected, err := selectionOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	nodes, err := a.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	list := &v1beta1.NodeMetricsList{TypeMeta: kind("NodeMetricsList"), Items: []v1beta1.NodeMetrics{}}
	for _, node := range nodes {
		if !selected.matches(node) {
			continue
		}
		if m := a.node(node); m != nil {
			list.Items = append(list.Items, *m)
		}
	}
	slices.SortFunc(list.Items, func(x, y v1beta1.NodeMetrics) int { return cmp.Compare(x.Name, y.Name) })
	return list, nil
}

func (a *api) getNode(r *http.Request) (runtime.Object, error) {
	name := r.PathValue("name")
	node, err := a.nodes.Get(name)
	if err != nil {
		return nil, missing(err, "nodes", name)
	}
	if m := a.node(node); m != nil {
		m.TypeMeta = kind("NodeMetrics")
		return m, nil
	}
	return nil, apierrors.NewNotFound(v1beta1.Resource("nodemetrics"), name)
}

func (a *api) listPods(r *http.Request) (runtime.Object, error) {
	selected, err := selectionOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	var pods []runtime.Object
	if namespace := r.PathValue("namespace"); namespace != "" {
		pods, err = a.pods.ByNamespace(namespace).List(selected.labels)
	} else {
		pods, err = a.pods.List(selected.labels)
	}
	if err != nil {
		return nil, err
	}
	list := &v1beta1.PodMetricsList{TypeMeta: kind("PodMetricsList"), Items: []v1beta1.PodMetrics{}}
	for _, object := range pods {
		pod, ok := object.(*metav1.PartialObjectMetadata)
		if !ok || !selected.matches(pod) {
			continue
		}
		if m := a.pod(pod); m != nil {
			list.Items = append(list.Items, *m)
		}
	}
	slices.SortFunc(list.Items, func(x, y v1beta1.PodMetrics) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return list, nil
}

func (a *api) getPod(r *http.Request) (runtime.Object, error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	object, err := a.pods.ByNamespace(namespace).Get(name)
	if err != nil {
		return nil, missing(err, "pods", namespace+"/"+name)
	}
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no metadata of a pod", object))
	}
	if m := a.pod(pod); m != nil {
		m.TypeMeta = kind("PodMetrics")
		return m, nil
	}
	return nil, apierrors.NewNotFound(v1beta1.Resource("podmetrics"), namespace+"/"+name)
}

func missing(err error, resource, name string) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(v1.Resource(resource), name)
	}
	return apierrors.NewInternalError(errors.Join(errors.New("failed to read the object from memory"), err))
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: name, APIVersion: v1beta1.SchemeGroupVersion.String()}
}

// meta is that of metrics: they were created just now.
func (a *api) meta(of metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: of.GetName(), Namespace: of.GetNamespace(), Labels: of.GetLabels(),
		CreationTimestamp: metav1.NewTime(a.clock.Now())}
}

// node is nil without metrics.
func (a *api) node(node *v1.Node) *v1beta1.NodeMetrics {
	rate, ok := a.state().Node(node.Name)
	if !ok {
		return nil
	}
	a.metrics.freshness.Observe(a.clock.Since(rate.At).Seconds())
	return &v1beta1.NodeMetrics{ObjectMeta: a.meta(node), Timestamp: metav1.NewTime(rate.At),
		Window: metav1.Duration{Duration: rate.Window}, Usage: resources(rate)}
}

// pod is nil without metrics. Its time and window are those of the container that was measured first.
func (a *api) pod(pod *metav1.PartialObjectMetadata) *v1beta1.PodMetrics {
	containers := a.state().Pod(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	if len(containers) == 0 {
		return nil
	}
	first := containers[0].Rate
	m := &v1beta1.PodMetrics{ObjectMeta: a.meta(pod)}
	for _, c := range containers {
		if c.At.Before(first.At) {
			first = c.Rate
		}
		m.Containers = append(m.Containers, v1beta1.ContainerMetrics{Name: c.Name, Usage: resources(c.Rate)})
	}
	m.Timestamp, m.Window = metav1.NewTime(first.At), metav1.Duration{Duration: first.Window}
	a.metrics.freshness.Observe(a.clock.Since(first.At).Seconds())
	return m
}

func resources(rate usage.Rate) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewScaledQuantity(int64(rate.NanoCores), resource.Nano),
		v1.ResourceMemory: *resource.NewQuantity(int64(rate.Memory), resource.BinarySI),
	}
}
