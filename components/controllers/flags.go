package controllers

import "github.com/spf13/pflag"

// AddFlags adds upstream's flags; what c holds is their default.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "file that names the API server and the manager's identity")
	fs.StringVar(&c.AuthenticationKubeconfig, "authentication-kubeconfig", c.AuthenticationKubeconfig, "checked at start; health and metrics are served without authentication")
	fs.StringVar(&c.AuthorizationKubeconfig, "authorization-kubeconfig", c.AuthorizationKubeconfig, "checked at start; health and metrics are served without authorization")
	fs.Float32Var(&c.KubeAPIQPS, "kube-api-qps", c.KubeAPIQPS, "requests per second of each controller; negative: no limit")
	fs.IntVar(&c.KubeAPIBurst, "kube-api-burst", c.KubeAPIBurst, "requests each controller may send at once")
	fs.DurationVar(&c.MinResyncPeriod, "min-resync-period", c.MinResyncPeriod, "how often every object is looked at again without an event")

	fs.StringSliceVar(&c.Controllers, "controllers", c.Controllers, "controllers to run: '*' is all, 'name' is that one, '-name' is not that one; all: "+names())
	fs.BoolVar(&c.UseServiceAccountCredentials, "use-service-account-credentials", c.UseServiceAccountCredentials, "let each controller speak as a service account of its own")

	fs.StringVar(&c.BindAddress, "bind-address", c.BindAddress, "IP address to serve health and metrics on")
	fs.IntVar(&c.SecurePort, "secure-port", c.SecurePort, "port to serve health and metrics on; 0 serves nothing")
	fs.StringVar(&c.TLSCertFile, "tls-cert-file", c.TLSCertFile, "serving certificate; self-signed if empty")
	fs.StringVar(&c.TLSPrivateKeyFile, "tls-private-key-file", c.TLSPrivateKeyFile, "key of --tls-cert-file")

	fs.BoolVar(&c.AllocateNodeCIDRs, "allocate-node-cidrs", c.AllocateNodeCIDRs, "give each node a range of pod addresses")
	fs.StringVar(&c.ClusterCIDR, "cluster-cidr", c.ClusterCIDR, "range of pod addresses, or one of each family, comma-separated")
	fs.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", c.ServiceClusterIPRange, "range of service addresses, kept free of pods")
	fs.IntVar(&c.NodeCIDRMaskSize, "node-cidr-mask-size", c.NodeCIDRMaskSize, "prefix length of a node's range, with one address family")
	fs.IntVar(&c.NodeCIDRMaskSizeIPv4, "node-cidr-mask-size-ipv4", c.NodeCIDRMaskSizeIPv4, "prefix length of a node's IPv4 range")
	fs.IntVar(&c.NodeCIDRMaskSizeIPv6, "node-cidr-mask-size-ipv6", c.NodeCIDRMaskSizeIPv6, "prefix length of a node's IPv6 range")

	fs.StringVar(&c.RootCAFile, "root-ca-file", c.RootCAFile, "certificate authority to publish in every namespace; the one of the kubeconfig if empty")

	fs.IntVar(&c.ConcurrentDeploymentSyncs, "concurrent-deployment-syncs", c.ConcurrentDeploymentSyncs, "deployments reconciled at once")
	fs.IntVar(&c.ConcurrentReplicaSetSyncs, "concurrent-replicaset-syncs", c.ConcurrentReplicaSetSyncs, "replica sets reconciled at once")
	fs.IntVar(&c.ConcurrentNamespaceSyncs, "concurrent-namespace-syncs", c.ConcurrentNamespaceSyncs, "namespaces emptied at once")
}
