package leader

import "github.com/spf13/pflag"

// AddFlags gives c upstream's defaults for a component called name and binds upstream's --leader-elect flags to it.
func (c *Config) AddFlags(fs *pflag.FlagSet, name string) {
	*c = Default(name)
	fs.BoolVar(&c.Elect, "leader-elect", c.Elect,
		"Work only while holding the leader's lease, so that of several replicas one works.")
	fs.DurationVar(&c.LeaseDuration, "leader-elect-lease-duration", c.LeaseDuration,
		"How long other candidates wait after the last renewal they saw before they take over.")
	fs.DurationVar(&c.RenewDeadline, "leader-elect-renew-deadline", c.RenewDeadline,
		"How long the leader tries to renew before it gives up; less than the lease duration.")
	fs.DurationVar(&c.RetryPeriod, "leader-elect-retry-period", c.RetryPeriod,
		"Pause between tries to acquire or renew.")
	fs.StringVar(&c.ResourceLock, "leader-elect-resource-lock", c.ResourceLock,
		"Kind of the lock object; only \"leases\" is supported.")
	fs.StringVar(&c.ResourceName, "leader-elect-resource-name", c.ResourceName,
		"Name of the lease.")
	fs.StringVar(&c.ResourceNamespace, "leader-elect-resource-namespace", c.ResourceNamespace,
		"Namespace of the lease.")
}
