// Package leader lets one of several instances of a component work, by a Lease, with upstream's flags.
package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLost is what Run returns when another instance took over, or when the lease could not be renewed in time.
var ErrLost = errors.New("leadership lost")

// Config configures leader election. Its zero value disables it: Run then starts at once.
type Config struct {
	Elect             bool
	LeaseDuration     time.Duration // how long others wait after the last renewal they saw
	RenewDeadline     time.Duration // how long the leader keeps trying to renew; less than LeaseDuration
	RetryPeriod       time.Duration // between tries
	ResourceLock      string        // only "leases"
	ResourceName      string
	ResourceNamespace string
	// Watchdog, if not nil, observes the leadership and reports a leader as unhealthy once its lease has expired.
	Watchdog *leaderelection.HealthzAdaptor
}

// NewWatchdog gives a leader time after the end of its lease to end on its own, as upstream does.
func NewWatchdog() *leaderelection.HealthzAdaptor {
	return leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
}

// Default is what upstream's programs elect by: Lease kube-system/<name>.
func Default(name string) Config {
	return Config{
		Elect:             true,
		LeaseDuration:     15 * time.Second,
		RenewDeadline:     10 * time.Second,
		RetryPeriod:       2 * time.Second,
		ResourceLock:      resourcelock.LeasesResourceLock,
		ResourceName:      name,
		ResourceNamespace: metav1.NamespaceSystem,
	}
}

// Validate tells what Run would refuse.
func (c Config) Validate() error {
	switch {
	case !c.Elect:
		return nil
	case c.ResourceLock != resourcelock.LeasesResourceLock:
		return fmt.Errorf("leader election: resource lock %q is not supported, use %q", c.ResourceLock,
			resourcelock.LeasesResourceLock)
	case c.ResourceName == "" || c.ResourceNamespace == "":
		return errors.New("leader election: the lease needs a name and a namespace")
	case c.LeaseDuration <= c.RenewDeadline:
		return fmt.Errorf("leader election: lease duration %v must be greater than renew deadline %v", c.LeaseDuration,
			c.RenewDeadline)
	case float64(c.RenewDeadline) <= leaderelection.JitterFactor*float64(c.RetryPeriod):
		return fmt.Errorf("leader election: renew deadline %v must be greater than retry period %v x %v",
			c.RenewDeadline, c.RetryPeriod, leaderelection.JitterFactor)
	case c.RetryPeriod <= 0:
		return errors.New("leader election: retry period must be greater than zero")
	}
	return nil
}

// Identity returns a name that no other instance has: the host's name and a random part.
func Identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + uuid.NewString()
}

// Run waits for leadership and then calls lead; it returns lead's error, nil if ctx ended before, or ErrLost. The
// context given to lead ends with ctx and with the leadership. The lease is released after lead returned, so that
// no other instance starts while this one still works. An empty identity takes Identity().
func Run(ctx context.Context, c Config, client kubernetes.Interface, identity string,
	lead func(context.Context) error) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if !c.Elect {
		return lead(ctx)
	}
	elected := make(chan struct{})
	elector, err := c.elector(client, identity, elected)
	if err != nil {
		return err
	}
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	defer func() {
		stop()
		<-ended
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-elected:
	}
	return while(ctx, ended, lead)
}

// while runs lead until ctx or the leadership ends.
func while(ctx context.Context, ended <-chan struct{}, lead func(context.Context) error) error {
	leading, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ended:
			cancel(ErrLost)
		case <-leading.Done():
		}
	}()
	err := lead(leading)
	lost := errors.Is(context.Cause(leading), ErrLost)
	cancel(nil)
	<-watched
	if lost {
		return ErrLost
	}
	return err
}

func (c Config) elector(client kubernetes.Interface, identity string,
	elected chan<- struct{}) (*leaderelection.LeaderElector, error) {
	if identity == "" {
		identity = Identity()
	}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: c.ResourceName,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.ResourceNamespace, Name: c.ResourceName},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   c.LeaseDuration,
		RenewDeadline:   c.RenewDeadline,
		RetryPeriod:     c.RetryPeriod,
		ReleaseOnCancel: true,
		WatchDog:        c.Watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
		},
	})
}
