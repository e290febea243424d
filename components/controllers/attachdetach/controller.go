package attachdetach

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"quintet.dev/quintet/components/controllers/pods"
	"quintet.dev/quintet/components/controllers/runner"
)

// Options of the controller.
type Options struct {
	// SyncPeriod is how often every node is decided on without an event; 0: never.
	SyncPeriod time.Duration
	// ForceDetach takes volumes from nodes that are not ready and keep them in use for too long.
	ForceDetach bool
}

// Controller attaches and detaches.
type Controller struct {
	env         runner.Env
	options     Options
	nodes       corelisters.NodeLister
	claims      corelisters.PersistentVolumeClaimLister
	volumes     corelisters.PersistentVolumeLister
	attachments storagelisters.VolumeAttachmentLister
	drivers     storagelisters.CSIDriverLister
	pods        *pods.Index
	loop        *runner.Loop[string]

	// memory is the loop's only worker's.
	memory memory
	meters *meters
}

// New makes the controller; it starts working with Run.
func New(env runner.Env, options Options) (*Controller, error) {
	core, storage := env.Informers.Core().V1(), env.Informers.Storage().V1()
	index, err := pods.NewIndex(env.Informers)
	if err != nil {
		return nil, err
	}
	nodes, claims, volumes := core.Nodes(), core.PersistentVolumeClaims(), core.PersistentVolumes()
	c := &Controller{env: env, options: options, nodes: nodes.Lister(), claims: claims.Lister(),
		volumes: volumes.Lister(), attachments: storage.VolumeAttachments().Lister(), drivers: storage.CSIDrivers().Lister(),
		pods:   index,
		memory: newMemory(), meters: newMeters(env)}
	env.Collect(volumeCounts{c})
	env.Workers = 1 // two decisions at once could give one volume to two nodes
	c.loop = runner.NewLoop("attachdetach", env, c.reconcile)
	c.loop.Needs(volumes.Informer())
	c.loop.Needs(storage.CSIDrivers().Informer())
	if err := c.loop.Watch(core.Pods().Informer(), runner.Handle(c.podChanged)); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(nodes.Informer(), runner.Handle(c.nodeChanged)); err != nil {
		return nil, err
	}
	if err := c.loop.Watch(claims.Informer(), runner.Handle(c.claimChanged)); err != nil {
		return nil, err
	}
	return c, c.loop.Watch(storage.VolumeAttachments().Informer(), runner.Handle(c.attachmentChanged))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.loop.Run(ctx) })
	if c.options.SyncPeriod > 0 {
		group.Go(func() error {
			runner.Every(ctx, c.env.Clock, c.options.SyncPeriod, func(context.Context) { c.resync() })
			return ctx.Err()
		})
	}
	return group.Wait()
}

func (c *Controller) resync() {
	if nodes, err := c.nodes.List(labels.Everything()); err == nil {
		for _, node := range nodes {
			c.loop.Add(node.Name)
		}
	}
	if attachments, err := c.attachments.List(labels.Everything()); err == nil {
		for _, attachment := range attachments {
			c.loop.Add(attachment.Spec.NodeName) // which may be gone
		}
	}
}

func (c *Controller) podChanged(old, new *v1.Pod) {
	if pod := runner.Last(old, new); pod.Spec.NodeName != "" && hasClaims(pod) {
		c.loop.Add(pod.Spec.NodeName)
	}
}

func hasClaims(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}

func (c *Controller) nodeChanged(old, new *v1.Node) {
	if old != nil && new != nil && slices.Equal(old.Status.VolumesInUse, new.Status.VolumesInUse) &&
		ready(old) == ready(new) && outOfService(old) == outOfService(new) && managed(old) == managed(new) {
		return
	}
	c.loop.Add(runner.Last(old, new).Name)
}

// managed tells whether the node's kubelet leaves attaching to this controller.
func managed(node *v1.Node) bool {
	_, ok := node.Annotations[managedAnnotation]
	return ok
}

// claimChanged wakes the nodes whose pods wait for the claim's volume.
func (c *Controller) claimChanged(old, new *v1.PersistentVolumeClaim) {
	if new == nil || new.Status.Phase != v1.ClaimBound || (old != nil && old.Status.Phase == v1.ClaimBound) {
		return
	}
	if volume, err := c.volumes.Get(new.Spec.VolumeName); err == nil && !c.attachable(volume) {
		return // most clusters have no others
	}
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return
	}
	for _, node := range nodes {
		for _, pod := range c.pods.OnNode(node.Name) {
			if pod.Namespace == new.Namespace && slices.Contains(claimsOf(pod), new.Name) {
				c.loop.Add(node.Name)
			}
		}
	}
}

// attachmentChanged wakes the node, and when it ends also those that wait for the volume.
func (c *Controller) attachmentChanged(old, new *storagev1.VolumeAttachment) {
	last := runner.Last(old, new)
	c.loop.Add(last.Spec.NodeName)
	if new == nil {
		c.resync()
	}
}

func claimsOf(pod *v1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			names = append(names, ephemeral.VolumeClaimName(pod, volume))
		}
	}
	return names
}

// volumesOf returns the attachable volumes of a pod.
func (c *Controller) volumesOf(pod *v1.Pod) []*v1.PersistentVolume {
	var found []*v1.PersistentVolume
	for _, name := range claimsOf(pod) {
		claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil || claim.Status.Phase != v1.ClaimBound || claim.Spec.VolumeName == "" {
			continue
		}
		volume, err := c.volumes.Get(claim.Spec.VolumeName)
		if err != nil || volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.UID != claim.UID || !c.attachable(volume) {
			continue
		}
		if !slices.Contains(found, volume) {
			found = append(found, volume)
		}
	}
	return found
}

// attachable tells whether the volume's driver has to attach it. A driver that is not described has to.
func (c *Controller) attachable(volume *v1.PersistentVolume) bool {
	if volume.Spec.CSI == nil {
		return false
	}
	driver, err := c.drivers.Get(volume.Spec.CSI.Driver)
	return err != nil || driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired
}

// observe reads what there is to know of a node. A node that attaches by itself, or isn't there, wants nothing.
func (c *Controller) observe(name string) (*view, error) {
	v := &view{name: name, wants: map[string]want{}, volumes: map[string]*v1.PersistentVolume{},
		elsewhere: map[string][]*storagev1.VolumeAttachment{}, usersElsewhere: map[string][]*v1.Pod{},
		forceDetach: c.options.ForceDetach, now: c.env.Clock.Now(), idleSince: c.memory.idleSince}
	node, err := c.nodes.Get(name)
	if runner.IgnoreGone(err) != nil {
		return nil, err
	}
	if err == nil {
		v.node = node
	}
	if v.node != nil && managed(v.node) {
		for _, pod := range c.pods.OnNode(name) {
			if !needsVolumes(pod, v.node) {
				continue
			}
			for _, volume := range c.volumesOf(pod) {
				at := attachmentName(volume, name)
				v.wants[at] = want{volume: volume, pods: append(v.wants[at].pods, pod)}
			}
		}
	}
	return v, c.observeAttachments(v)
}

func (c *Controller) observeAttachments(v *view) error {
	all, err := c.attachments.List(labels.Everything())
	if err != nil {
		return err
	}
	all = append(all, c.memory.unseen(all)...)
	wanted := map[string]*v1.PersistentVolume{}
	for _, w := range v.wants {
		wanted[w.volume.Name] = w.volume
	}
	for _, attachment := range all {
		if attachment.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		name := *attachment.Spec.Source.PersistentVolumeName
		if attachment.Spec.NodeName != v.name {
			if wanted[name] != nil {
				v.elsewhere[name] = append(v.elsewhere[name], attachment)
				v.usersElsewhere[name] = append(v.usersElsewhere[name], c.users(attachment.Spec.NodeName, name)...)
			}
			continue
		}
		volume, err := c.volumes.Get(name)
		if runner.IgnoreGone(err) != nil {
			return err
		}
		if err == nil && volume.Spec.CSI != nil {
			v.volumes[name] = volume
		}
		if own(attachment, v.volumes[name]) {
			v.attachments = append(v.attachments, attachment)
		}
	}
	return nil
}

// own tells whether the attachment was made by a controller like this one: others are theirs to remove who made them.
func own(attachment *storagev1.VolumeAttachment, volume *v1.PersistentVolume) bool {
	if volume != nil {
		return attachment.Name == attachmentName(volume, attachment.Spec.NodeName)
	}
	const hexDigits = 64
	return strings.HasPrefix(attachment.Name, "csi-") && len(attachment.Name) == len("csi-")+hexDigits
}

// users returns the pods of a node that use a volume.
func (c *Controller) users(node, volume string) []*v1.Pod {
	return pods.Filter(c.pods.OnNode(node), func(pod *v1.Pod) bool {
		return !pods.Ended(pod) && slices.ContainsFunc(c.volumesOf(pod),
			func(v *v1.PersistentVolume) bool { return v.Name == volume })
	})
}
