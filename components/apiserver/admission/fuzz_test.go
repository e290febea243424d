package admission

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzFile: an AdmissionConfiguration is refused or read, and so is what it says of each plug-in.
func FuzzFile(f *testing.F) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	f.Add([]byte(head +
		"- {name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: " +
		"PodSecurityConfiguration, defaults: {enforce: baseline}}}\n"))
	f.Add([]byte(head +
		"- {name: ResourceQuota, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, " +
		"limitedResources: [{resource: pods}]}}\n"))
	f.Add([]byte(head + "- {name: ImagePolicyWebhook, path: x.yaml}\n"))
	f.Add([]byte(head + "- {name: NamespaceLifecycle, configuration: {}}\n"))
	f.Add([]byte("imagePolicy: {kubeConfigFile: x}\npodNodeSelectorPluginConfig: {a: b=c}\n"))
	f.Add([]byte("{"))
	file := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		plugins, err := readFile(file,
			map[string]bool{"PodSecurity": true, "ResourceQuota": true, "ImagePolicyWebhook": true})
		if err != nil && plugins != nil {
			t.Errorf("got %v and %v", plugins, err)
		}
	})
}
