package controllers

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/components/controllers/attachdetach"
	"quintet.dev/quintet/components/controllers/persistentvolume"
	"quintet.dev/quintet/components/controllers/runner"
)

// StorageConfig is what the controllers of volumes, and of devices that pods claim, are made from.
type StorageConfig struct {
	// PVClaimBinderSyncPeriod is how often claims and volumes are decided on without an event.
	PVClaimBinderSyncPeriod time.Duration
	// EnableDynamicProvisioning lets claims ask for volumes that are made on demand.
	EnableDynamicProvisioning bool
	// PVRecycler*: templates of pods that empty volumes, and how long these get, in seconds: at least, and per GiB.
	PVRecyclerPodTemplateHostPath, PVRecyclerPodTemplateNFS           string
	PVRecyclerMinimumTimeoutHostPath, PVRecyclerTimeoutPerGiBHostPath int
	PVRecyclerMinimumTimeoutNFS, PVRecyclerTimeoutPerGiBNFS           int
	// AttachDetachReconcileSyncPeriod is how often all nodes are compared with their attachments.
	AttachDetachReconcileSyncPeriod  time.Duration
	DisableAttachDetachReconcileSync bool
	// DisableForceDetachOnTimeout leaves volumes attached to a lost node until it is marked as out of service.
	DisableForceDetachOnTimeout    bool
	ConcurrentEphemeralVolumeSyncs int
	ConcurrentResourceClaimSyncs   int
}

func defaultStorage() StorageConfig {
	return StorageConfig{
		PVClaimBinderSyncPeriod: 15 * time.Second, EnableDynamicProvisioning: true,
		PVRecyclerMinimumTimeoutHostPath: 60, PVRecyclerTimeoutPerGiBHostPath: 30,
		PVRecyclerMinimumTimeoutNFS: 300, PVRecyclerTimeoutPerGiBNFS: 30,
		AttachDetachReconcileSyncPeriod: time.Minute, ConcurrentEphemeralVolumeSyncs: 5,
		ConcurrentResourceClaimSyncs: 50,
	}
}

// AddFlags adds upstream's flags of these controllers.
func (c *StorageConfig) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.PVClaimBinderSyncPeriod, "pvclaimbinder-sync-period", c.PVClaimBinderSyncPeriod,
		"how often every volume and claim is decided on without an event")
	fs.BoolVar(&c.EnableDynamicProvisioning, "enable-dynamic-provisioning", c.EnableDynamicProvisioning,
		"let claims ask for volumes that are made on demand")
	for _, kind := range []struct {
		name, least, more string
		template          *string
		minimum, perGiB   *int
	}{
		{"hostpath", "pv-recycler-minimum-timeout-hostpath", "pv-recycler-timeout-increment-hostpath",
			&c.PVRecyclerPodTemplateHostPath, &c.PVRecyclerMinimumTimeoutHostPath, &c.PVRecyclerTimeoutPerGiBHostPath},
		{"nfs", "pv-recycler-minimum-timeout-nfs", "pv-recycler-increment-timeout-nfs",
			&c.PVRecyclerPodTemplateNFS, &c.PVRecyclerMinimumTimeoutNFS, &c.PVRecyclerTimeoutPerGiBNFS},
	} {
		fs.StringVar(kind.template, "pv-recycler-pod-template-filepath-"+kind.name, *kind.template,
			"file with the pod that empties volumes of this kind")
		fs.IntVar(kind.minimum, kind.least, *kind.minimum, "seconds that this pod gets at least")
		fs.IntVar(kind.perGiB, kind.more, *kind.perGiB, "seconds that this pod gets for each GiB")
	}
	fs.DurationVar(&c.AttachDetachReconcileSyncPeriod, "attach-detach-reconcile-sync-period",
		c.AttachDetachReconcileSyncPeriod, "how often all nodes are compared with their attachments; more than a second")
	fs.BoolVar(&c.DisableAttachDetachReconcileSync, "disable-attach-detach-reconcile-sync",
		c.DisableAttachDetachReconcileSync, "compare nodes with their attachments only when something changes")
	fs.BoolVar(&c.DisableForceDetachOnTimeout, "disable-force-detach-on-timeout", c.DisableForceDetachOnTimeout,
		"leave volumes attached to a lost node until it is marked as out of service")
	fs.IntVar(&c.ConcurrentEphemeralVolumeSyncs, "concurrent-ephemeralvolume-syncs", c.ConcurrentEphemeralVolumeSyncs,
		"pods whose ephemeral volumes get claims at once")
	fs.IntVar(&c.ConcurrentResourceClaimSyncs, "concurrent-resourceclaim-syncs", c.ConcurrentResourceClaimSyncs,
		"pods and resource claims reconciled at once")
}

func (c *StorageConfig) validate() error {
	var errs []error
	if c.PVClaimBinderSyncPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--pvclaimbinder-sync-period %v must be longer than nothing",
			c.PVClaimBinderSyncPeriod))
	}
	if c.AttachDetachReconcileSyncPeriod <= time.Second && !c.DisableAttachDetachReconcileSync {
		errs = append(errs, fmt.Errorf("--attach-detach-reconcile-sync-period %v must be longer than a second",
			c.AttachDetachReconcileSyncPeriod))
	}
	_, err := c.binder()
	return errors.Join(append(errs, err)...)
}

func (c *StorageConfig) binder() (persistentvolume.Options, error) {
	options := persistentvolume.Options{
		SyncPeriod: c.PVClaimBinderSyncPeriod, DynamicProvisioning: c.EnableDynamicProvisioning,
		HostPath: recycling(c.PVRecyclerMinimumTimeoutHostPath, c.PVRecyclerTimeoutPerGiBHostPath),
		NFS:      recycling(c.PVRecyclerMinimumTimeoutNFS, c.PVRecyclerTimeoutPerGiBNFS),
	}
	for _, template := range []struct {
		file, kind string
		to         *persistentvolume.Recycling
	}{
		{c.PVRecyclerPodTemplateHostPath, "hostpath", &options.HostPath}, {c.PVRecyclerPodTemplateNFS, "nfs", &options.NFS},
	} {
		if template.file == "" {
			continue
		}
		pod, err := persistentvolume.ReadTemplate(template.file)
		if err != nil {
			return options, fmt.Errorf("--pv-recycler-pod-template-filepath-%s: %w", template.kind, err)
		}
		template.to.Template = pod
	}
	return options, nil
}

func recycling(minimum, perGiB int) persistentvolume.Recycling {
	return persistentvolume.Recycling{Timeout: time.Duration(minimum) * time.Second,
		PerGiB: time.Duration(perGiB) * time.Second}
}

func makeVolumeBinder(h *host, env runner.Env) (runner.Controller, error) {
	options, err := h.config.Storage.binder()
	if err != nil {
		return nil, err
	}
	return persistentvolume.New(env, options)
}

func makeAttachDetach(h *host, env runner.Env) (runner.Controller, error) {
	c := &h.config.Storage
	options := attachdetach.Options{SyncPeriod: c.AttachDetachReconcileSyncPeriod,
		ForceDetach: !c.DisableForceDetachOnTimeout}
	if c.DisableAttachDetachReconcileSync {
		options.SyncPeriod = 0
	}
	return attachdetach.New(env, options)
}

// ofStorage tells the settings of the controllers of volumes.
func (c *StorageConfig) ofStorage() section {
	return section{
		"AttachDetachController": section{
			"DisableAttachDetachReconcilerSync": c.DisableAttachDetachReconcileSync,
			"ReconcilerSyncLoopPeriod":          seconds(c.AttachDetachReconcileSyncPeriod),
			"DisableForceDetachOnTimeout":       c.DisableForceDetachOnTimeout,
		},
		"EphemeralVolumeController": section{"ConcurrentEphemeralVolumeSyncs": c.ConcurrentEphemeralVolumeSyncs},
		"ResourceClaimController":   section{"ConcurrentSyncs": c.ConcurrentResourceClaimSyncs},
		"PersistentVolumeBinderController": section{
			"PVClaimBinderSyncPeriod": seconds(c.PVClaimBinderSyncPeriod),
			"VolumeConfiguration": section{
				"EnableDynamicProvisioning": c.EnableDynamicProvisioning,
				"PersistentVolumeRecyclerConfiguration": section{
					"MinimumTimeoutNFS":           c.PVRecyclerMinimumTimeoutNFS,
					"PodTemplateFilePathNFS":      c.PVRecyclerPodTemplateNFS,
					"IncrementTimeoutNFS":         c.PVRecyclerTimeoutPerGiBNFS,
					"PodTemplateFilePathHostPath": c.PVRecyclerPodTemplateHostPath,
					"MinimumTimeoutHostPath":      c.PVRecyclerMinimumTimeoutHostPath,
					"IncrementTimeoutHostPath":    c.PVRecyclerTimeoutPerGiBHostPath,
				},
			},
		},
	}
}
