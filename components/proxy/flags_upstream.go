package proxy

import "quintet.dev/quintet/internal/upstreamflags"

// upstreamOnly are flags of upstream's kube-proxy that have nothing to set here. Those of other modes have no effect
// in mode nftables there, either.
func upstreamOnly() []upstreamflags.Flag {
	flags := []upstreamflags.Flag{
		{Name: "init-only", Default: "false", Why: "nothing is initialized apart from what a running kube-proxy does"},
		{Name: "show-hidden-metrics-for-version", Why: "no metric is hidden"},
	}
	for _, name := range []string{
		"iptables-localhost-nodeports", "iptables-masquerade-bit", "iptables-min-sync-period", "iptables-sync-period",
		"ipvs-exclude-cidrs", "ipvs-min-sync-period", "ipvs-scheduler", "ipvs-strict-arp", "ipvs-sync-period",
		"ipvs-tcp-timeout", "ipvs-tcpfin-timeout", "ipvs-udp-timeout",
	} {
		flags = append(flags, upstreamflags.Flag{Name: name, Ignored: true, Default: defaultOf(name),
			Why: "Has no effect in mode nftables."})
	}
	return flags
}

// defaultOf is upstream's default of a flag that may be given without a value.
func defaultOf(name string) string {
	switch name {
	case "iptables-localhost-nodeports":
		return "true"
	case "ipvs-strict-arp":
		return "false"
	}
	return ""
}
