package pods

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// FromTemplate makes the pod that template describes, controlled by owner and named after it.
func FromTemplate(template *v1.PodTemplateSpec, owner metav1.Object, controllerRef metav1.OwnerReference) *v1.Pod {
	prefix := owner.GetName() + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) != 0 {
		prefix = owner.GetName()
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			GenerateName:    prefix,
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{controllerRef},
		},
	}
	template.Spec.DeepCopyInto(&pod.Spec)
	return pod
}

// TemplateHash is the value of the label pod-template-hash. It is computed as Kubernetes always did (FNV-1a of the
// template's dump and the collision count, in an alphabet without vowels), so that either controller manager
// finds the children of the other.
func TemplateHash(template *v1.PodTemplateSpec, collisions *int32) string {
	hasher := fnv.New32a()
	fmt.Fprintf(hasher, "%v", dump.ForHash(*template))
	if collisions != nil {
		salt := make([]byte, 8)
		binary.LittleEndian.PutUint32(salt, uint32(*collisions))
		_, _ = hasher.Write(salt)
	}
	return rand.SafeEncodeString(fmt.Sprint(hasher.Sum32()))
}
