// Package dra is the kubelet's side of dynamic resource allocation: it has drivers prepare the ResourceClaims of pods
// before their containers start, and unprepare them once the last pod that used them has ended (KEP-4381).
package dra

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

// Manager knows which claims are prepared, and for which pods. It is safe for concurrent use. The fields are set before
// Open and not changed afterwards.
type Manager struct {
	Client  kubernetes.Interface
	Drivers *Drivers
	File    string // the checkpoint
	// HealthChanged, if set, is called with a pod that has a device whose health changed.
	HealthChanged func(uid types.UID)

	calling chan struct{} // holds a value while drivers prepare or unprepare: a claim may be shared by pods

	mu     sync.Mutex
	claims map[types.NamespacedName]*Claim
}

// Claim is a claim that is prepared, or may be: drivers were asked, but their answer may have been lost.
type Claim struct {
	UID             types.UID
	Namespace, Name string
	Pods            map[types.UID]bool
	Drivers         map[string][]Device // by driver
	Prepared        bool
}

// Device is a device of a claim.
type Device struct {
	Pool, Name string
	ShareID    *string
	Requests   []string // of the claim; empty is all
	CDI        []string // fully qualified names of CDI devices
}

func (c *Claim) key() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

func (c *Claim) request() *drapb.Claim {
	return &drapb.Claim{Namespace: c.Namespace, Uid: string(c.UID), Name: c.Name}
}

// clone returns a copy that shares nothing that changes.
func (c *Claim) clone() *Claim {
	out := *c
	out.Pods, out.Drivers = maps.Clone(c.Pods), maps.Clone(c.Drivers)
	return &out
}

// podClaims are the claims of a pod, with that of its extended resources (KEP-5004).
func podClaims(pod *v1.Pod) []v1.PodResourceClaim {
	claims := slices.Clone(pod.Spec.ResourceClaims)
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		claims = append(claims, v1.PodResourceClaim{ResourceClaimName: &extended.ResourceClaimName})
	}
	return claims
}

// Prepare has drivers prepare the claims of a pod that are not yet. It is idempotent.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod) error {
	if len(podClaims(pod)) == 0 {
		return nil
	}
	wanted, err := m.fetch(ctx, pod)
	if err == nil {
		err = m.prepare(ctx, pod, wanted)
	}
	if err != nil {
		return fmt.Errorf("prepare dynamic resources: %w", err)
	}
	return nil
}

// call waits until no other pod's claims are prepared or unprepared; done lets the next ones be.
func (m *Manager) call(ctx context.Context) (done func(), err error) {
	select {
	case m.calling <- struct{}{}:
		return func() { <-m.calling }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *Manager) prepare(ctx context.Context, pod *v1.Pod, wanted []*Claim) error {
	done, err := m.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	todo, err := m.reference(pod.UID, wanted)
	if err != nil {
		return err
	}
	for _, driver := range slices.Sorted(maps.Keys(byDriver(todo))) {
		if err := m.prepareWith(ctx, driver, byDriver(todo)[driver]); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, claim := range todo {
		claim.Prepared = true
	}
	return m.save()
}

// fetch reads the claims of a pod, and checks that it may use them and that their drivers are there. Nothing is noted
// before: a pod that fails here leaves nothing to unprepare.
func (m *Manager) fetch(ctx context.Context, pod *v1.Pod) ([]*Claim, error) {
	var list []*Claim
	claims := podClaims(pod)
	for i := range claims {
		name, owned, err := resourceclaim.Name(pod, &claims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue // no claim is needed
		}
		object, err := m.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("fetch ResourceClaim %s: %w", *name, err)
		}
		if owned {
			if err := resourceclaim.IsForPod(pod, object, false); err != nil {
				return nil, err
			}
		}
		if !resourceclaim.IsReservedForPod(pod, object, false) {
			return nil, fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)",
				pod.Name, pod.UID, *name, object.UID)
		}
		claim, err := newClaim(object)
		if err != nil {
			return nil, err
		}
		for driver := range claim.Drivers {
			if _, err := m.Drivers.find(driver); err != nil {
				return nil, err
			}
		}
		list = append(list, claim)
	}
	return list, nil
}

func newClaim(object *resourceapi.ResourceClaim) (*Claim, error) {
	if object.Status.Allocation == nil {
		return nil, fmt.Errorf("ResourceClaim %s: not allocated", object.Name)
	}
	claim := &Claim{
		UID: object.UID, Namespace: object.Namespace, Name: object.Name, Pods: map[types.UID]bool{},
		Drivers: map[string][]Device{},
	}
	for i := range object.Status.Allocation.Devices.Results {
		claim.Drivers[object.Status.Allocation.Devices.Results[i].Driver] = nil
	}
	return claim, nil
}

// reference notes that a pod uses claims, and returns those that are to be prepared. The checkpoint is written before
// any driver is asked: whatever happens then, the claims are unprepared once the pod has ended.
func (m *Manager) reference(uid types.UID, wanted []*Claim) ([]*Claim, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var todo []*Claim
	for _, claim := range wanted {
		known := m.claims[claim.key()]
		switch {
		case known == nil:
			known = claim
			m.claims[claim.key()] = known
		case known.UID != claim.UID:
			return nil, fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists "+
				"(previous pod force-deleted?!)", claim.Name, known.UID)
		}
		known.Pods[uid] = true
		if !known.Prepared && !slices.Contains(todo, known) {
			todo = append(todo, known)
		}
	}
	return todo, m.save()
}

func byDriver(claims []*Claim) map[string][]*Claim {
	batches := map[string][]*Claim{}
	for _, claim := range claims {
		for driver := range claim.Drivers {
			batches[driver] = append(batches[driver], claim)
		}
	}
	return batches
}

// prepareWith has one driver prepare claims.
func (m *Manager) prepareWith(ctx context.Context, name string, claims []*Claim) error {
	driver, err := m.Drivers.find(name)
	if err != nil {
		return err
	}
	request := &drapb.NodePrepareResourcesRequest{}
	for _, claim := range claims {
		request.Claims = append(request.Claims, claim.request())
	}
	response, err := driver.prepare(ctx, request)
	if err != nil {
		return fmt.Errorf("NodePrepareResources: %w", err)
	}
	if err := check("NodePrepareResources", claims, response.Claims); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, claim := range claims {
		var devices []Device
		for _, d := range response.Claims[string(claim.UID)].GetDevices() {
			devices = append(devices, Device{
				Pool: d.PoolName, Name: d.DeviceName, ShareID: d.ShareId, Requests: d.RequestNames, CDI: d.CdiDeviceIds,
			})
		}
		claim.Drivers[name] = devices
	}
	return nil
}

// check compares the answer of a driver with what it was asked.
func check[R interface{ GetError() string }](call string, claims []*Claim, answers map[string]R) error {
	names := map[string]string{}
	for _, claim := range claims {
		names[string(claim.UID)] = claim.Name
	}
	for _, uid := range slices.Sorted(maps.Keys(answers)) {
		name, asked := names[uid]
		if !asked {
			return fmt.Errorf("%s returned result for unknown claim UID %s", call, uid)
		}
		if message := answers[uid].GetError(); message != "" {
			return fmt.Errorf("%s failed for ResourceClaim %s: %s", call, name, message)
		}
	}
	if skipped := len(claims) - len(answers); skipped != 0 {
		return fmt.Errorf("%s skipped %d ResourceClaims", call, skipped)
	}
	return nil
}

// Uses tells that Unprepare has something to do for a pod.
func (m *Manager) Uses(uid types.UID) bool { return len(m.used(uid)) > 0 }

func (m *Manager) used(uid types.UID) []*Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*Claim
	for _, claim := range m.claims {
		if claim.Pods[uid] {
			list = append(list, claim)
		}
	}
	return list
}

// Unprepare ends a pod's use of its claims: drivers unprepare those that no other pod uses. It is idempotent.
func (m *Manager) Unprepare(ctx context.Context, uid types.UID) error {
	if !m.Uses(uid) {
		return nil
	}
	done, err := m.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	used := m.used(uid)
	last := slices.DeleteFunc(slices.Clone(used), func(c *Claim) bool { return len(c.Pods) > 1 })
	batches := byDriver(last)
	for _, driver := range slices.Sorted(maps.Keys(batches)) {
		if err := m.unprepareWith(ctx, driver, batches[driver]); err != nil {
			return fmt.Errorf("unprepare dynamic resources: %w", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, claim := range used {
		delete(claim.Pods, uid)
		if len(claim.Pods) == 0 {
			delete(m.claims, claim.key())
		}
	}
	return m.save()
}

// unprepareWith has one driver unprepare claims.
func (m *Manager) unprepareWith(ctx context.Context, name string, claims []*Claim) error {
	driver, err := m.Drivers.find(name)
	if err != nil {
		return err
	}
	request := &drapb.NodeUnprepareResourcesRequest{}
	for _, claim := range claims {
		request.Claims = append(request.Claims, claim.request())
	}
	response, err := driver.unprepare(ctx, request)
	if err != nil {
		return fmt.Errorf("NodeUnprepareResources: %w", err)
	}
	return check("NodeUnprepareResources", claims, response.Claims)
}
