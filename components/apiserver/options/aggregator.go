package options

import "github.com/spf13/pflag"

func (c *Config) addAggregatorFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ProxyClientCert, "proxy-client-cert-file", "",
		"Client certificate that proves to extension servers that a request comes through this server.")
	fs.StringVar(&c.ProxyClientKey, "proxy-client-key-file", "", "Key of the client certificate for extension servers.")
	fs.StringVar(&c.EgressFile, "egress-selector-config-file", "",
		"EgressSelectorConfiguration: by which proxies the server connects to nodes, to etcd, and to others of the "+
			"control plane.")
	fs.Var((*not)(&c.PassRedirects), "aggregator-reject-forwarding-redirect",
		"Refuse redirects of extension servers, instead of passing them on to clients.")
	fs.Lookup("aggregator-reject-forwarding-redirect").NoOptDefVal = "true"
	fs.BoolVar(&c.EnableAggregatorRouting, "enable-aggregator-routing", false,
		"Reach extension servers and webhooks by the endpoints of their Services only. "+
			"Without it, Services that are another name (ExternalName) serve, too.")
}
