package volumes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	volumehelper "k8s.io/component-helpers/storage/volume"
)

// Mount makes the volumes of pod that its containers use, or brings them up to date, and returns where each is. pod's
// status holds its addresses as far as they are known. The error joins one per event to be recorded (errors.Join).
// What was made before stays usable when it can't be brought up to date because its claim can't be read: a claim may be
// deleted while a pod uses it.
func (m *Manager) Mount(ctx context.Context, pod *v1.Pod) (map[string]Mounted, error) {
	mounted := make(map[string]Mounted, len(pod.Spec.Volumes))
	used := usesOf(pod)
	var unresolved []string
	var unresolvedErrs, failures []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !needed(v, used) {
			continue
		}
		source, err := m.resolve(ctx, pod, v, used[v.Name])
		if err != nil {
			if _, before, ok := m.source(pod.UID, v.Name); ok {
				mounted[v.Name] = before
				continue
			}
			unresolved, unresolvedErrs = append(unresolved, v.Name), append(unresolvedErrs, err)
			continue
		}
		where, err := m.setUp(ctx, source)
		if err != nil {
			failures = append(failures, failure(source, err))
			continue
		}
		mounted[v.Name] = where
		m.remember(source, where)
	}
	if len(unresolved) > 0 {
		texts := make([]string, len(unresolvedErrs))
		for i, err := range unresolvedErrs {
			texts[i] = err.Error()
		}
		//lint:ignore ST1005 it is the text of an event
		failures = append(failures, fmt.Errorf("Unable to attach or mount volumes: unmounted volumes=%v, "+
			"unattached volumes=[], failed to process volumes=%v: %s",
			unresolved, unresolved, strings.Join(texts, "; ")))
	}
	return mounted, errors.Join(failures...)
}

// use is how the containers of a pod use a volume.
type use struct{ mounted, device bool }

func usesOf(pod *v1.Pod) map[string]use {
	uses := map[string]use{}
	add := func(mounts []v1.VolumeMount, devices []v1.VolumeDevice) {
		for _, mount := range mounts {
			u := uses[mount.Name]
			u.mounted = true
			uses[mount.Name] = u
		}
		for _, device := range devices {
			u := uses[device.Name]
			u.device = true
			uses[device.Name] = u
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			add(list[i].VolumeMounts, list[i].VolumeDevices)
			for _, e := range list[i].Env { // an env file is read by the kubelet alone
				if e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil {
					add([]v1.VolumeMount{{Name: e.ValueFrom.FileKeyRef.VolumeName}}, nil)
				}
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		add(c.VolumeMounts, c.VolumeDevices)
	}
	return uses
}

// needed tells whether a volume is made. What lies on storage is made only for containers that use it, as with
// upstream's kubelet.
func needed(v *v1.Volume, used map[string]use) bool {
	_, ok := used[v.Name]
	return ok || v.PersistentVolumeClaim == nil && v.Ephemeral == nil && v.CSI == nil
}

// setUp lets the plug-in make a volume after the checks that all have in common.
func (m *Manager) setUp(ctx context.Context, s *Source) (Mounted, error) {
	plugin, err := m.pluginOf(s)
	if err != nil {
		return Mounted{}, err
	}
	if err := m.checkAffinity(s); err != nil {
		return Mounted{}, Fails(StepAffinity, err)
	}
	if s.Block {
		devices, able := plugin.(BlockPlugin)
		if !able {
			return Mounted{}, fmt.Errorf("volume plugin %q does not support block volumes", plugin.Name())
		}
		return devices.SetUpDevice(ctx, s)
	}
	if len(s.MountOptions()) > 0 {
		if optioner, able := plugin.(MountOptioner); !able || !optioner.SupportsMountOptions() {
			return Mounted{}, Fails(StepOptions, errors.New("Mount options are not supported for volume type"))
		}
	}
	return plugin.SetUp(ctx, s)
}

// checkAffinity tells whether a persistent volume may be used on this node. One that is in use stays so when the labels
// of the node change.
func (m *Manager) checkAffinity(s *Source) error {
	if _, _, inUse := m.source(s.Pod.UID, s.Volume.Name); inUse || s.PV == nil || m.Node == nil {
		return nil
	}
	node := m.Node()
	if node == nil {
		return nil
	}
	return volumehelper.CheckNodeAffinity(s.PV, node.Labels)
}

// mountedVolume is a volume that was made, and where.
type mountedVolume struct {
	source *Source
	where  Mounted
}

// source is what a volume of a pod was made from, and where it is; ok is false before it was made by this kubelet.
func (m *Manager) source(uid types.UID, volume string) (source *Source, where Mounted, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.mounted[uid][volume]
	return v.source, v.where, ok
}

func (m *Manager) remember(source *Source, where Mounted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := source.Pod.UID
	if m.mounted == nil {
		m.mounted = map[types.UID]map[string]mountedVolume{}
	}
	if m.mounted[uid] == nil {
		m.mounted[uid] = map[string]mountedVolume{}
	}
	m.mounted[uid][source.Volume.Name] = mountedVolume{source, where}
}

// TearDown unmounts the volumes of a pod that has ended and removes what it kept in them on this node. The rest of the
// pod's directory stays. It is idempotent.
func (m *Manager) TearDown(ctx context.Context, uid types.UID) error {
	if uid == "" || !filepath.IsLocal(string(uid)) || strings.ContainsRune(string(uid), '/') {
		return fmt.Errorf("pod UID %q is no name of a directory", uid)
	}
	dir := m.podDir(uid)
	if err := unmountBelow(filepath.Join(dir, "volume-subpaths")); err != nil { // they keep volumes busy
		return err
	}
	for _, plugin := range m.plugins() {
		if releaser, able := plugin.(Releaser); able {
			if err := releaser.TearDown(ctx, uid); err != nil {
				return fmt.Errorf("tear down %s volumes of the pod: %w", plugin.Name(), err)
			}
		}
	}
	if err := unmountBelow(dir); err != nil {
		return err
	}
	if m.Tokens != nil {
		m.Tokens.Forget(uid)
	}
	if m.Certificates != nil {
		m.Certificates.Forget(uid)
	}
	m.mu.Lock()
	delete(m.mounted, uid)
	m.mu.Unlock()
	for _, made := range []string{"volumes", "volume-subpaths"} {
		if err := os.RemoveAll(filepath.Join(dir, made)); err != nil {
			return err
		}
	}
	return m.sweepImages()
}

// Remove tears the volumes of a pod down and removes its directory. It is idempotent.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if err := m.TearDown(ctx, uid); err != nil {
		return err
	}
	return os.RemoveAll(m.podDir(uid))
}
