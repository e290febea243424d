// Package history keeps the pod templates that a workload has had as ControllerRevisions, under the names and with
// the content upstream gives them, so that kubectl's rollout commands and either controller manager understand them.
package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"

	"quintet.dev/quintet/components/controllers/owned"
)

// HashLabel holds the hash of a StatefulSet's revision.
const HashLabel = "controller.kubernetes.io/hash"

// Data is what a revision stores of a template: a patch that puts it back.
func Data(template *v1.PodTemplateSpec) ([]byte, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	if err := json.Unmarshal(encoded, &content); err != nil {
		return nil, err
	}
	content["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": content}})
}

// Template reads what Data wrote.
func Template(revision *apps.ControllerRevision) (*v1.PodTemplateSpec, error) {
	var patch struct {
		Spec struct {
			Template v1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &patch); err != nil {
		return nil, fmt.Errorf("controller revision %s: %w", revision.Name, err)
	}
	return &patch.Spec.Template, nil
}

// Hash is the part of a revision's name that tells contents apart.
func Hash(data []byte, collisions int32) string {
	hasher := fnv.New32()
	_, _ = hasher.Write(data)
	_, _ = hasher.Write([]byte(strconv.FormatInt(int64(collisions), 10)))
	return rand.SafeEncodeString(fmt.Sprint(hasher.Sum32()))
}

// Sort orders revisions from the oldest to the newest.
func Sort(revisions []*apps.ControllerRevision) {
	slices.SortStableFunc(revisions, func(a, b *apps.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name))
	})
}

// Next is the number of a revision that is newer than all; revisions must be sorted.
func Next(revisions []*apps.ControllerRevision) int64 {
	if len(revisions) == 0 {
		return 1
	}
	return revisions[len(revisions)-1].Revision + 1
}

// Find returns the newest revision with that content, or nil; revisions must be sorted.
func Find(revisions []*apps.ControllerRevision, data []byte) *apps.ControllerRevision {
	for _, revision := range slices.Backward(revisions) {
		if string(revision.Data.Raw) == string(data) {
			return revision
		}
	}
	return nil
}

// Excess returns the oldest revisions beyond limit, of those that are not in use; revisions must be sorted.
func Excess(revisions []*apps.ControllerRevision, inUse map[string]bool, limit int) []*apps.ControllerRevision {
	idle := slices.DeleteFunc(slices.Clone(revisions), func(r *apps.ControllerRevision) bool { return inUse[r.Name] })
	return idle[:max(len(idle)-limit, 0)]
}

// New makes a revision of owner; its name ends in hash.
func New(owner metav1.Object, kind schema.GroupVersionKind, templateLabels map[string]string, hashLabel, hash string,
	data []byte, number int64) *apps.ControllerRevision {
	marked := maps.Clone(templateLabels)
	if marked == nil {
		marked = map[string]string{}
	}
	marked[hashLabel] = hash
	return &apps.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            owner.GetName() + "-" + hash,
			Namespace:       owner.GetNamespace(),
			Labels:          marked,
			Annotations:     maps.Clone(owner.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// Store reads and writes revisions.
type Store struct {
	Client kubernetes.Interface
	Lister appslisters.ControllerRevisionLister
}

// Of returns the revisions of owner, sorted, after adopting those that match selector.
func (s Store) Of(ctx context.Context, owner metav1.Object, kind schema.GroupVersionKind, selector labels.Selector,
	fresh func(context.Context) (metav1.Object, error)) ([]*apps.ControllerRevision, error) {
	all, err := s.Lister.ControllerRevisions(owner.GetNamespace()).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	claimer := owned.Claimer[*apps.ControllerRevision]{
		Owner: owner, Kind: kind, Fresh: fresh,
		Patch: func(ctx context.Context, revision *apps.ControllerRevision, patch []byte) error {
			_, err := s.Client.AppsV1().ControllerRevisions(revision.Namespace).Patch(ctx, revision.Name,
				types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		},
	}
	mine, err := claimer.Claim(ctx, selector, all)
	Sort(mine)
	return mine, err
}

// ErrCollision tells that another content has the name: raise the collision count.
var ErrCollision = fmt.Errorf("the name of the controller revision is taken by other content")

// Create writes revision, or returns the one that is there with the same content.
func (s Store) Create(ctx context.Context, revision *apps.ControllerRevision) (*apps.ControllerRevision, error) {
	client := s.Client.AppsV1().ControllerRevisions(revision.Namespace)
	made, err := client.Create(ctx, revision, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	existing, err := client.Get(ctx, revision.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if string(existing.Data.Raw) != string(revision.Data.Raw) {
		return nil, ErrCollision
	}
	return existing, nil
}

// Renew gives an old revision the newest number: its content is wanted again.
func (s Store) Renew(ctx context.Context, revision *apps.ControllerRevision,
	number int64) (*apps.ControllerRevision, error) {
	if revision.Revision == number {
		return revision, nil
	}
	changed := revision.DeepCopy()
	changed.Revision = number
	return s.Client.AppsV1().ControllerRevisions(revision.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
}

// Delete removes revisions.
func (s Store) Delete(ctx context.Context, revisions []*apps.ControllerRevision) error {
	for _, revision := range revisions {
		err := s.Client.AppsV1().ControllerRevisions(revision.Namespace).Delete(ctx, revision.Name, metav1.DeleteOptions{
			Preconditions: metav1.NewUIDPreconditions(string(revision.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
