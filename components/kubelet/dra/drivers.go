package dra

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	drahealthapi "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	drapbv1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/pluginwatcher"
)

const (
	// callTimeout bounds a call of a driver, as upstream's kubelet does.
	callTimeout = 45 * time.Second
	// wipingDelay is what a driver that is gone has to come back before its ResourceSlices are removed.
	wipingDelay = 30 * time.Second
	// wipeRetry is how long to wait after they could not be removed.
	wipeRetry = 5 * time.Second
)

// Drivers are the DRA drivers that are registered on the node. It is safe for concurrent use.
type Drivers struct {
	Client kubernetes.Interface
	Clock  clock.WithTicker
	Node   string
	// DialOptions are those of connections to drivers, beside the kubelet's own. Tests see and hold calls with them.
	DialOptions []grpc.DialOption

	health  healthCache
	changed func([]deviceID) // called as the health of devices changes

	mu      sync.Mutex
	drivers map[string][]*driver          // by name, the newest last: two run during a rolling update
	wiping  map[string]context.CancelFunc // of drivers that are gone, by name
	wait    sync.WaitGroup
}

var _ pluginwatcher.Handler = (*Drivers)(nil)

// driver is one registered instance of a driver.
type driver struct {
	endpoint string
	conn     *grpc.ClientConn
	beta     bool               // it serves v1beta1 only
	stop     context.CancelFunc // ends the watch of its devices' health
}

// prepare calls NodePrepareResources.
func (d *driver) prepare(ctx context.Context, request *drapb.NodePrepareResourcesRequest,
) (*drapb.NodePrepareResourcesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.client().NodePrepareResources(ctx, request)
}

// unprepare calls NodeUnprepareResources.
func (d *driver) unprepare(ctx context.Context, request *drapb.NodeUnprepareResourcesRequest,
) (*drapb.NodeUnprepareResourcesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return d.client().NodeUnprepareResources(ctx, request)
}

// client speaks v1, or v1beta1 with messages that are converted.
func (d *driver) client() drapb.DRAPluginClient {
	if d.beta {
		return drapbv1beta1.V1Beta1ClientWrapper{DRAPluginClient: drapbv1beta1.NewDRAPluginClient(d.conn)}
	}
	return drapb.NewDRAPluginClient(d.conn)
}

// find returns the newest instance of a driver.
func (d *Drivers) find(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.drivers[name]
	if len(list) == 0 {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	return list[len(list)-1], nil
}

// Register implements pluginwatcher.Handler.
func (d *Drivers) Register(ctx context.Context, p pluginwatcher.Plugin) error {
	v1, beta := slices.Contains(p.Versions, drapb.DRAPluginService), slices.Contains(p.Versions,
		drapbv1beta1.DRAPluginService)
	if !v1 && !beta {
		return fmt.Errorf("none of the versions %v of DRA driver %s is supported: use %s or %s", p.Versions, p.Name,
			drapb.DRAPluginService, drapbv1beta1.DRAPluginService)
	}
	conn, err := pluginwatcher.Dial(p.Endpoint, d.DialOptions...)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.drivers == nil {
		d.drivers = map[string][]*driver{}
	}
	ctx, stop := context.WithCancel(ctx)
	d.drivers[p.Name] = append(d.drivers[p.Name], &driver{endpoint: p.Endpoint, conn: conn, beta: !v1, stop: stop})
	if slices.Contains(p.Versions, drahealthapi.DRAResourceHealth_ServiceDesc.ServiceName) {
		watch := &healthWatch{driver: p.Name, client: drahealthapi.NewDRAResourceHealthClient(conn), cache: &d.health,
			clock: d.Clock, changed: d.changed}
		d.wait.Go(func() { watch.run(ctx) })
	}
	if stop := d.wiping[p.Name]; stop != nil {
		stop()
		delete(d.wiping, p.Name)
	}
	return nil
}

// Deregister implements pluginwatcher.Handler. The ResourceSlices of a driver that does not come back are removed.
func (d *Drivers) Deregister(ctx context.Context, p pluginwatcher.Plugin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.drivers[p.Name]
	i := slices.IndexFunc(list, func(one *driver) bool { return one.endpoint == p.Endpoint })
	if i < 0 {
		return
	}
	list[i].stop()
	_ = list[i].conn.Close()
	d.drivers[p.Name] = slices.Delete(list, i, i+1)
	if len(d.drivers[p.Name]) == 0 {
		d.wipeLater(ctx, p.Name, wipingDelay)
		if gone := d.health.clear(p.Name); len(gone) > 0 {
			d.changed(gone)
		}
	}
}

// Start removes the ResourceSlices of drivers that are not registered after a restart of the kubelet: they publish them
// again when they are. It goes on until that is done or ctx ends; Close waits for it.
func (d *Drivers) Start(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wipeLater(ctx, "", 0)
}

// Close waits for what Start and Deregister began, whose context has ended, and ends the connections to drivers.
func (d *Drivers) Close() {
	d.wait.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, list := range d.drivers {
		for _, one := range list {
			one.stop()
			_ = one.conn.Close()
		}
	}
	d.drivers = nil
}

// wipeLater removes the ResourceSlices of a driver unless it comes back; those of all drivers that are not there if
// name is "". It is called with the lock held.
func (d *Drivers) wipeLater(ctx context.Context, name string, delay time.Duration) {
	ctx, stop := context.WithCancel(ctx)
	if d.wiping == nil {
		d.wiping = map[string]context.CancelFunc{}
	}
	if old := d.wiping[name]; old != nil {
		old()
	}
	d.wiping[name] = stop
	timer := d.Clock.NewTimer(delay)
	d.wait.Go(func() {
		defer stop()
		defer func() { timer.Stop() }()
		for {
			select {
			case <-timer.C():
			case <-ctx.Done():
				return
			}
			err := d.wipe(ctx, name)
			if err == nil || ctx.Err() != nil {
				return
			}
			klog.FromContext(ctx).Error(err, "ResourceSlices can't be removed, will be retried", "driver", name)
			timer = d.Clock.NewTimer(wipeRetry)
		}
	})
}

// wipe removes the ResourceSlices of the node whose driver is not there.
func (d *Drivers) wipe(ctx context.Context, name string) error {
	selector := resourceapi.ResourceSliceSelectorNodeName + "=" + d.Node
	if name != "" {
		selector += "," + resourceapi.ResourceSliceSelectorDriver + "=" + name
	}
	slices := d.Client.ResourceV1().ResourceSlices()
	list, err := slices.List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return err
	}
	gone := map[string]bool{}
	for i := range list.Items {
		gone[list.Items[i].Spec.Driver] = true
	}
	for driver := range gone {
		if _, err := d.find(driver); err == nil {
			continue
		}
		err := slices.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
			FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + d.Node + "," +
				resourceapi.ResourceSliceSelectorDriver + "=" + driver,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
