package dra

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	drahealthapi "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	"k8s.io/utils/clock"
)

const (
	// healthTimeout is how long the health of a device is believed if the driver doesn't say.
	healthTimeout = 30 * time.Second
	// healthRetry is how long to wait after a driver's stream of health ended.
	healthRetry = 5 * time.Second
	// healthPeriod is how often health that is too old is looked for.
	healthPeriod = 5 * time.Second
)

// deviceID is a device of the cluster.
type deviceID struct{ driver, pool, device string }

// resource is the name of the device in the status of pods.
func (id deviceID) resource() v1.ResourceID {
	return v1.ResourceID(id.driver + "/" + id.pool + "/" + id.device)
}

// deviceHealth is what a driver told of a device, until when it is believed.
type deviceHealth struct {
	status  v1.ResourceHealthStatus
	message string
	until   time.Time
	expired bool // that it is too old was noticed
}

// healthCache is the health of devices, as drivers told it (KEP-4680). It is safe for concurrent use.
type healthCache struct {
	mu      sync.Mutex
	devices map[deviceID]deviceHealth
}

// get returns the health of a device and the message of its driver.
func (c *healthCache) get(id deviceID, now time.Time) (v1.ResourceHealthStatus, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	health, known := c.devices[id]
	if !known || now.After(health.until) {
		return v1.ResourceHealthStatusUnknown, ""
	}
	return health.status, health.message
}

// update takes in what a driver told, and returns the devices that are in another state than before. Devices that it
// doesn't list keep theirs until that is too old.
func (c *healthCache) update(driver string, list []*drahealthapi.DeviceHealth, now time.Time) []deviceID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.devices == nil {
		c.devices = map[deviceID]deviceHealth{}
	}
	var changed []deviceID
	for _, told := range list {
		id := deviceID{driver, told.GetDevice().GetPoolName(), told.GetDevice().GetDeviceName()}
		if id.pool == "" || id.device == "" {
			continue
		}
		timeout := healthTimeout
		if seconds := told.HealthCheckTimeoutSeconds; seconds > 0 {
			timeout = time.Duration(seconds) * time.Second
		}
		fresh := deviceHealth{status: statusOf(told.Health), message: truncate(told.Message), until: now.Add(timeout)}
		before, known := c.devices[id]
		if !known || now.After(before.until) || before.status != fresh.status || before.message != fresh.message {
			changed = append(changed, id)
		}
		c.devices[id] = fresh
	}
	return changed
}

// expire returns the devices of a driver whose health has become too old since it was asked last.
func (c *healthCache) expire(driver string, now time.Time) []deviceID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed []deviceID
	for id, health := range c.devices {
		if id.driver == driver && !health.expired && now.After(health.until) {
			health.expired = true
			c.devices[id] = health
			changed = append(changed, id)
		}
	}
	return changed
}

// clear forgets a driver, and returns the devices whose health was known.
func (c *healthCache) clear(driver string) []deviceID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed []deviceID
	for id := range c.devices {
		if id.driver == driver {
			delete(c.devices, id)
			changed = append(changed, id)
		}
	}
	return changed
}

func statusOf(health drahealthapi.HealthStatus) v1.ResourceHealthStatus {
	switch health {
	case drahealthapi.HealthStatus_HEALTHY:
		return v1.ResourceHealthStatusHealthy
	case drahealthapi.HealthStatus_UNHEALTHY:
		return v1.ResourceHealthStatusUnhealthy
	default:
		return v1.ResourceHealthStatusUnknown
	}
}

// truncate cuts a message to what a status takes, in bytes, and not within a character.
func truncate(message string) string {
	if len(message) <= v1.ResourceHealthMessageMaxLength {
		return message
	}
	return strings.ToValidUTF8(message[:v1.ResourceHealthMessageMaxLength-len("...")], "") + "..."
}

// healthWatch follows what one instance of a driver tells of its devices.
type healthWatch struct {
	driver  string
	client  drahealthapi.DRAResourceHealthClient
	cache   *healthCache
	clock   clock.WithTicker
	changed func([]deviceID)
}

// run follows the driver until ctx ends, also when its stream breaks. A driver without the service ends it.
func (w *healthWatch) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var expiry sync.WaitGroup
	expiry.Go(func() { w.expire(ctx) })
	defer expiry.Wait()
	defer stop()
	for {
		err := w.follow(ctx)
		if ctx.Err() != nil || status.Code(err) == codes.Unimplemented {
			return
		}
		klog.FromContext(ctx).Info("Health of a DRA driver's devices is not told any more, will be asked for again",
			"driver", w.driver, "err", err)
		timer := w.clock.NewTimer(healthRetry)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// follow takes in what one stream tells.
func (w *healthWatch) follow(ctx context.Context) error {
	stream, err := w.client.NodeWatchResources(ctx, &drahealthapi.NodeWatchResourcesRequest{}, grpc.WaitForReady(true))
	for err == nil {
		var response *drahealthapi.NodeWatchResourcesResponse
		if response, err = stream.Recv(); err == nil {
			w.notify(w.cache.update(w.driver, response.Devices, w.clock.Now()))
		}
	}
	return err
}

// expire tells of devices whose health has become too old, until ctx ends.
func (w *healthWatch) expire(ctx context.Context) {
	ticker := w.clock.NewTicker(healthPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			w.notify(w.cache.expire(w.driver, w.clock.Now()))
		case <-ctx.Done():
			return
		}
	}
}

func (w *healthWatch) notify(changed []deviceID) {
	if len(changed) > 0 {
		w.changed(changed)
	}
}

// Health returns the health of the devices of each of a pod's containers, by name: a status for each claim, or request
// of a claim, that the container names (KEP-4680), and for each extended resource that it has by the pod's own claim
// (KEP-5004), under the name of the resource, as that of a device plug-in has it.
func (m *Manager) Health(pod *v1.Pod) map[string][]v1.ResourceStatus {
	statuses := map[string][]v1.ResourceStatus{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, named := range list[i].Resources.Claims {
				if s := m.claimHealth(pod, named); s != nil {
					statuses[list[i].Name] = append(statuses[list[i].Name], *s)
				}
			}
			if more := m.extendedHealth(pod, list[i].Name); len(more) > 0 {
				statuses[list[i].Name] = append(statuses[list[i].Name], more...)
			}
		}
	}
	return statuses
}

// claimHealth is the health of the devices of one claim of a container; nil for none.
func (m *Manager) claimHealth(pod *v1.Pod, named v1.ResourceClaim) *v1.ResourceStatus {
	claim := m.claimOf(pod, named.Name)
	if claim == nil || !claim.Prepared {
		return nil
	}
	name := "claim:" + named.Name
	if named.Request != "" {
		name += "/" + named.Request
	}
	return m.healthOf(claim, v1.ResourceName(name), []string{named.Request})
}

// extendedHealth is the health of the devices that a container has as extended resources, in the order of their names.
func (m *Manager) extendedHealth(pod *v1.Pod, container string) []v1.ResourceStatus {
	extended := pod.Status.ExtendedResourceClaimStatus
	if extended == nil {
		return nil
	}
	claim := m.claimNamed(pod.Namespace, extended.ResourceClaimName)
	if claim == nil || !claim.Prepared {
		return nil
	}
	requests := map[string][]string{}
	for _, mapping := range extended.RequestMappings {
		if mapping.ContainerName == container {
			requests[mapping.ResourceName] = append(requests[mapping.ResourceName], mapping.RequestName)
		}
	}
	var statuses []v1.ResourceStatus
	for _, resource := range sortedKeys(requests) {
		if s := m.healthOf(claim, v1.ResourceName(resource), requests[resource]); s != nil {
			statuses = append(statuses, *s)
		}
	}
	return statuses
}

// healthOf is the health of the devices that a claim has for requests; nil for none.
func (m *Manager) healthOf(claim *Claim, name v1.ResourceName, requests []string) *v1.ResourceStatus {
	s := &v1.ResourceStatus{Name: name}
	for _, driver := range sortedKeys(claim.Drivers) {
		for _, device := range claim.Drivers[driver] {
			if !device.serves(requests) {
				continue
			}
			id := deviceID{driver, device.Pool, device.Name}
			health := v1.ResourceHealth{ResourceID: id.resource()}
			var message string
			if health.Health, message = m.Drivers.health.get(id, m.Drivers.Clock.Now()); message != "" {
				health.Message = &message
			}
			s.Resources = append(s.Resources, health)
		}
	}
	if len(s.Resources) == 0 {
		return nil
	}
	return s
}

// healthChanged tells the pods that have devices.
func (m *Manager) healthChanged(changed []deviceID) {
	if m.HealthChanged == nil {
		return
	}
	for _, uid := range m.podsWith(changed) {
		m.HealthChanged(uid)
	}
}

// podsWith are the pods that have one of the devices.
func (m *Manager) podsWith(devices []deviceID) []types.UID {
	wanted := map[deviceID]bool{}
	for _, id := range devices {
		wanted[id] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[types.UID]bool{}
	for _, claim := range m.claims {
		for driver, list := range claim.Drivers {
			for _, device := range list {
				if wanted[deviceID{driver, device.Pool, device.Name}] {
					for uid := range claim.Pods {
						found[uid] = true
					}
				}
			}
		}
	}
	return sortedKeys(found)
}
