package kubelet

import (
	"reflect"
	"testing"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Every field that the file may set is shown, so that what is shown can be given to another kubelet as its file.
func TestShownConfiguration(t *testing.T) {
	c := NewConfig()
	c.SerializeImagePulls, c.MaxParallelImagePulls = false, 3
	c.ImageMaximumGCAge, c.ImageVerificationList = time.Hour, []string{"reg.io/a"}
	c.ImageVerification = kubeletconfig.NeverVerifyAllowlistedImages
	c.MaxPods, c.ClusterDomain, c.ClusterDNS, c.AllowedUnsafeSysctls = 7, "cluster.local", []string{"10.0.0.10"},
		[]string{"net.*"}
	shown := c.shown()
	if shown.MaxPods != 7 || shown.ClusterDomain != "cluster.local" || shown.Authorization.Mode != "Webhook" {
		t.Errorf("got %+v", shown)
	}
	again := &Config{}
	for _, setting := range again.settings(shown) {
		setting.apply()
	}
	want, got := reflect.ValueOf(*c), reflect.ValueOf(*again)
	for _, name := range []string{
		"SyncFrequency", "RegisterNode", "MaxPods", "NodeStatusUpdate", "NodeStatusReport", "NodeLeaseSeconds",
		"NodeStatusMaxImages", "KubeAPIQPS", "KubeAPIBurst", "EventQPS", "EventBurst", "SerializeImagePulls",
		"ContainerLogMaxSize", "ContainerLogMaxFiles", "PodLogsDir", "ClusterDNS", "ClusterDomain", "ResolvConf",
		"CPUCFSQuota",
		"CPUCFSQuotaPeriod", "PodPidsLimit", "AllowedUnsafeSysctls", "CgroupsPerQOS", "MaxRestartPeriod",
		"EnableServer", "MaxParallelImagePulls", "RegistryQPS", "RegistryBurst", "ImageGCHighThreshold",
		"ImageGCLowThreshold", "ImageMinimumGCAge",
		"ImageMaximumGCAge", "ImageVerification", "ImageVerificationList",
		"Address", "Port", "HealthzBindAddress", "HealthzPort", "AnonymousAuth", "WebhookAuthentication",
		"AuthenticationTTL", "AuthorizationMode", "AuthorizedTTL", "UnauthorizedTTL", "StreamingIdleTimeout",
		"EnableSystemLogs", "EnableDebugHandlers",
	} {
		if w, g := want.FieldByName(name).Interface(), got.FieldByName(name).Interface(); !reflect.DeepEqual(w, g) {
			t.Errorf("%s: %v is read back as %v", name, w, g)
		}
	}
}
