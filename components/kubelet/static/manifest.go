package static

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// Parser makes pods of manifests. It does no I/O and is safe for concurrent use.
type Parser struct {
	node    string
	decoder runtime.Decoder
}

// NewParser makes a parser for the manifests of a node.
func NewParser(node string) *Parser {
	return &Parser{node: node, decoder: scheme.Codecs.UniversalDeserializer()}
}

// File reads the one pod of a manifest, in JSON or YAML, at path.
func (p *Parser) File(data []byte, path string) (*v1.Pod, error) {
	object, err := p.decode(data)
	pod, ok := object.(*v1.Pod)
	if err == nil && !ok {
		err = fmt.Errorf("invalid pod: %#v", object)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: couldn't parse as pod(%w), please check config file", path, err)
	}
	return pod, p.complete(pod, path, fromFile)
}

// Page reads the pod, or the list of pods, of an answer from url.
func (p *Parser) Page(data []byte, url string) ([]*v1.Pod, error) {
	object, err := p.decode(data)
	if err != nil {
		return nil, fmt.Errorf("%v: received '%v', but couldn't parse as single (%w) or multiple pods", url,
			string(data), err)
	}
	var pods []*v1.Pod
	switch o := object.(type) {
	case *v1.Pod:
		pods = append(pods, o)
	case *v1.PodList:
		for i := range o.Items {
			pods = append(pods, &o.Items[i])
		}
	default:
		return nil, fmt.Errorf("invalid pod: %#v", object)
	}
	for _, pod := range pods {
		if err := p.complete(pod, url, fromHTTP); err != nil {
			return nil, err
		}
	}
	return pods, nil
}

func (p *Parser) decode(data []byte) (runtime.Object, error) {
	asJSON, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, err
	}
	object, _, err := p.decoder.Decode(asJSON, nil, nil)
	return object, err
}

// complete makes a manifest's pod one of this node. A manifest that gives no UID has its hash for one, so that a
// changed manifest is another pod, and an unchanged one the same pod after a restart.
func (p *Parser) complete(pod *v1.Pod, origin, source string) error {
	if pod.Name == "" {
		return errors.New("invalid pod: name is needed for the pod")
	}
	setDefaults(pod)
	if pod.UID == "" {
		uid, err := p.hash(pod, origin, source)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	pod.Name += "-" + strings.ToLower(p.node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = p.node
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, hashAnnotation, string(pod.UID))
	if source == fromFile {
		tolerateEviction(&pod.Spec)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	if errs := validate(pod); len(errs) > 0 {
		return fmt.Errorf("invalid pod: %v", errs)
	}
	if what := reference(pod); what != "" {
		return fmt.Errorf("static pods may not reference %s", what)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, sourceAnnotation, source)
	return nil
}

func (p *Parser) hash(pod *v1.Pod, origin, source string) (types.UID, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	sum := fnv.New128a()
	_, _ = sum.Write(data) // a hash takes everything
	if source == fromFile {
		_, _ = io.WriteString(sum, "host:"+p.node+"file:"+origin)
	} else {
		_, _ = io.WriteString(sum, "url:"+origin)
	}
	return types.UID(hex.EncodeToString(sum.Sum(nil))), nil
}

// tolerateEviction keeps the pod on the node whatever is wrong with that.
func tolerateEviction(spec *v1.PodSpec) {
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		if t.Key == "" && t.Effect == v1.TaintEffectNoExecute && t.Operator == v1.TolerationOpExists && t.Value == "" {
			t.TolerationSeconds = nil
			return
		}
	}
	spec.Tolerations = append(spec.Tolerations,
		v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
}
