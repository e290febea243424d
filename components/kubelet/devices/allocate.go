package devices

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Wants tells that a pod asks for resources of plug-ins: Allocate has something to do.
func (m *Manager) Wants(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if len(m.wanted(&list[i])) > 0 {
				return true
			}
		}
	}
	return false
}

// wanted returns the resources of plug-ins that a container asks for, and how many devices.
func (m *Manager) wanted(c *v1.Container) map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var wanted map[string]int
	var used map[string]idSet
	for name, limit := range c.Resources.Limits {
		if limit.IsZero() {
			continue
		}
		if used == nil {
			used = m.pods.used()
		}
		if m.resources[string(name)] == nil && used[string(name)] == nil {
			continue // another's
		}
		if wanted == nil {
			wanted = map[string]int{}
		}
		wanted[string(name)] = int(limit.Value())
	}
	return wanted
}

// Allocate gives the containers of a pod the devices that they ask for. What they have already they keep. After an
// error the pod may have some: Release gives them back.
func (m *Manager) Allocate(ctx context.Context, pod *v1.Pod) error {
	select {
	case m.allocating <- struct{}{}:
		defer func() { <-m.allocating }()
	case <-ctx.Done():
		return ctx.Err()
	}
	reusable := map[string]idSet{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := m.allocate(ctx, pod.UID, c, reusable); err != nil {
			return err
		}
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		m.reuse(pod.UID, c.Name, reusable, !sidecar)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if err := m.allocate(ctx, pod.UID, c, reusable); err != nil {
			return err
		}
		m.reuse(pod.UID, c.Name, reusable, false)
	}
	return nil
}

// reuse adds what a container has to what others of the pod may have, too, or takes it out.
func (m *Manager) reuse(uid types.UID, container string, reusable map[string]idSet, add bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, a := range m.pods[uid][container] {
		if reusable[name] == nil {
			reusable[name] = idSet{}
		}
		for _, id := range a.IDs {
			if add {
				reusable[name][id] = true
			} else {
				delete(reusable[name], id)
			}
		}
	}
}

// allocate gives one container its devices.
func (m *Manager) allocate(ctx context.Context, uid types.UID, c *v1.Container, reusable map[string]idSet) error {
	wanted := m.wanted(c)
	for _, name := range sortedKeys(wanted) {
		options, plugin, err := m.decide(uid, c.Name, name, wanted[name], reusable[name])
		if err != nil {
			return err
		}
		if options == nil {
			continue
		}
		if plugin == nil {
			return fmt.Errorf("unknown Device Plugin %s", name)
		}
		ids, err := plugin.preferred(ctx, options)
		if err != nil {
			return err
		}
		response, err := plugin.allocate(ctx, ids)
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.pods.set(uid, c.Name, name, &allocation{IDs: ids, Response: response})
		m.save()
		m.mu.Unlock()
	}
	return nil
}

// decide tells what may be allocated, and by which plug-in.
func (m *Manager) decide(uid types.UID, container, name string, required int,
	reusable idSet) (*choice, *endpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &wish{
		uid: uid, container: container, resource: name, required: required, reusable: reusable,
		had: m.pods[uid][container][name], used: m.pods.used()[name],
	}
	r := m.resources[name]
	if r != nil {
		w.registered, w.healthy = true, r.healthy()
	}
	options, err := choose(w)
	if err != nil || options == nil {
		return nil, nil, err
	}
	return options, r.endpoint, nil
}

// Options are what a container gets for its devices.
type Options struct {
	Env         map[string]string
	Mounts      []*pluginapi.Mount
	Devices     []*pluginapi.DeviceSpec
	Annotations map[string]string
	CDI         []string // fully qualified names of CDI devices
}

// Container tells the plug-ins that a container is about to start, where they ask for it, and returns what it gets.
func (m *Manager) Container(ctx context.Context, uid types.UID, c *v1.Container) (*Options, error) {
	wanted := m.wanted(c)
	for _, name := range sortedKeys(wanted) {
		m.mu.Lock()
		var plugin *endpoint
		if r := m.resources[name]; r != nil {
			plugin = r.endpoint
		}
		a := m.pods[uid][c.Name][name]
		m.mu.Unlock()
		if plugin == nil || !plugin.options.GetPreStartRequired() {
			continue
		}
		if a == nil {
			return nil, fmt.Errorf("no devices found allocated in local cache for pod %s, container %s, resource %s",
				uid, c.Name, name)
		}
		if err := plugin.preStart(ctx, a.IDs); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return merge(m.pods[uid][c.Name]), nil
}

// merge puts together what plug-ins answered for one container. What is there twice counts once.
func merge(byResource map[string]*allocation) *Options {
	o := &Options{Env: map[string]string{}, Annotations: map[string]string{}}
	paths, targets, cdi := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, name := range sortedKeys(byResource) {
		r := byResource[name].Response
		for _, key := range sortedKeys(r.GetEnvs()) {
			if _, taken := o.Env[key]; !taken {
				o.Env[key] = r.Envs[key]
			}
		}
		for _, key := range sortedKeys(r.GetAnnotations()) {
			if _, taken := o.Annotations[key]; !taken {
				o.Annotations[key] = r.Annotations[key]
			}
		}
		for _, device := range r.GetDevices() {
			if !paths[device.ContainerPath] {
				paths[device.ContainerPath] = true
				o.Devices = append(o.Devices, device)
			}
		}
		for _, mount := range r.GetMounts() {
			if !targets[mount.ContainerPath] {
				targets[mount.ContainerPath] = true
				o.Mounts = append(o.Mounts, mount)
			}
		}
		for _, device := range r.GetCdiDevices() {
			if !cdi[device.Name] {
				cdi[device.Name] = true
				o.CDI = append(o.CDI, device.Name)
			}
		}
	}
	return o
}
