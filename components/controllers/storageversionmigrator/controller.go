// Package storageversionmigrator writes the objects of a resource again, so that they lie in the store as they would be
// stored today: in the storage version, encrypted with the current key
// (https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/).
package storageversionmigrator

import (
	"context"
	"fmt"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	listers "k8s.io/client-go/listers/storagemigration/v1beta1"
	"k8s.io/client-go/metadata"

	"quintet.dev/quintet/components/controllers/runner"
)

// unknownResourceTimeout is how long a resource may be unknown after its migration was asked for: it may be a custom
// one, just defined.
const unknownResourceTimeout = time.Minute

// Sources are how the controller reaches resources of any kind.
type Sources struct {
	Discovery discovery.DiscoveryInterface
	Metadata  metadata.Interface
	Dynamic   dynamic.Interface
}

// Controller migrates, one resource at a time and worker.
type Controller struct {
	env        runner.Env
	sources    Sources
	migrations listers.StorageVersionMigrationLister
	loop       *runner.Loop[metav1.GroupResource]
}

// New makes the controller; it starts working with Run.
func New(env runner.Env, sources Sources) (*Controller, error) {
	migrations := env.Informers.Storagemigration().V1beta1().StorageVersionMigrations()
	c := &Controller{env: env, sources: sources, migrations: migrations.Lister()}
	c.loop = runner.NewLoop("storage-version-migrator-controller", env, c.reconcile)
	return c, c.loop.Watch(migrations.Informer(), runner.Handle(func(old, now *migration) {
		c.loop.Add(runner.Last(old, now).Spec.Resource)
	}))
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// reconcile takes the migrations of a resource one step further: each step is written to a status, whose event triggers
// the next.
func (c *Controller) reconcile(ctx context.Context, resource metav1.GroupResource) error {
	all, err := c.migrations.List(labels.Everything())
	if err != nil {
		return err
	}
	p := plan(all, resource)
	for _, m := range p.ended {
		if err := c.finishDefinition(ctx, m); err != nil {
			return err
		}
		if err := c.tell(ctx, stopped(m, c.now())); err != nil {
			return err
		}
	}
	switch {
	case p.next != nil:
		if err := c.beginDefinition(ctx, p.next); err != nil {
			return err
		}
		return c.tell(ctx, with(p.next, migrationv1beta1.MigrationRunning, reasonRunning,
			"The migration is running", c.now()))
	case p.running != nil:
		return c.run(ctx, p.running)
	}
	return nil
}

// run finds out up to which version objects are to be written again, and does so.
func (c *Controller) run(ctx context.Context, m *migration) error {
	r, err := c.find(m.Spec.Resource)
	switch {
	case err != nil:
		return err
	case r == nil && c.env.Clock.Since(m.CreationTimestamp.Time) < unknownResourceTimeout:
		return fmt.Errorf("%s: not served, which may change", m.Spec.Resource.String())
	case r == nil:
		return c.fail(ctx, m, "resource does not exist in discovery")
	case !r.migratable():
		return c.fail(ctx, m, fmt.Sprintf("resource %q does not support discovery operations: %v", r.gvr.String(),
			requiredVerbs()))
	}
	if m.Status.ResourceVersion == "" {
		version, err := c.latest(ctx, r)
		if err != nil {
			return err
		}
		next := m.DeepCopy()
		next.Status.ResourceVersion = version
		return c.tell(ctx, next)
	}
	fatal, err := c.migrate(ctx, r, m.Status.ResourceVersion)
	switch {
	case err != nil:
		return err
	case fatal != nil:
		return c.fail(ctx, m, fmt.Sprintf("migration encountered unhandled error: %s", fatal))
	}
	return c.tell(ctx, with(m, migrationv1beta1.MigrationSucceeded, reasonSucceeded, "", c.now()))
}

func (c *Controller) fail(ctx context.Context, m *migration, message string) error {
	return c.tell(ctx, with(m, migrationv1beta1.MigrationFailed, reasonFailed, message, c.now()))
}

func (c *Controller) tell(ctx context.Context, m *migration) error {
	_, err := c.env.Client.StoragemigrationV1beta1().StorageVersionMigrations().UpdateStatus(ctx, m,
		metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}

func (c *Controller) now() metav1.Time { return metav1.NewTime(c.env.Clock.Now()) }
