package kubelet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// fromFile is upstream's defaults with a configuration file.
func fromFile(t *testing.T, fields string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		strings.ReplaceAll(strings.Trim(fields, "{}"), ", ", "\n")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := NewConfig()
	c.ConfigFile, c.Kubeconfig = path, "some"
	if err := c.ReadFile(); err != nil {
		return nil, err
	}
	return c, c.validate()
}

func TestImageConfiguration(t *testing.T) {
	for _, test := range []struct {
		fields string
		check  func(*Config) bool
	}{
		{"", func(c *Config) bool {
			return c.SerializeImagePulls && c.ImageGCHighThreshold == 85 && c.ImageGCLowThreshold == 80 &&
				c.ImageMinimumGCAge == 2*time.Minute && c.ImageVerification == kubeletconfig.NeverVerifyPreloadedImages
		}},
		{"maxParallelImagePulls: 3", func(c *Config) bool { return !c.SerializeImagePulls && c.MaxParallelImagePulls == 3 }},
		{"maxParallelImagePulls: 1", func(c *Config) bool { return c.SerializeImagePulls }},
		{"serializeImagePulls: false", func(c *Config) bool {
			return !c.SerializeImagePulls && c.MaxParallelImagePulls == 0
		}},
		{"{imageGCHighThresholdPercent: 100, imageGCLowThresholdPercent: 0, imageMinimumGCAge: 1m, imageMaximumGCAge: 1h}",
			func(c *Config) bool {
				return c.ImageGCHighThreshold == 100 && c.ImageGCLowThreshold == 0 && c.ImageMinimumGCAge == time.Minute &&
					c.ImageMaximumGCAge == time.Hour
			}},
		{"{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, " +
			"preloadedImagesVerificationAllowlist: [reg.io/a]}", func(c *Config) bool {
			return c.ImageVerification == kubeletconfig.NeverVerifyAllowlistedImages && len(c.ImageVerificationList) == 1
		}},
	} {
		if c, err := fromFile(t, test.fields); err != nil || !test.check(c) {
			t.Errorf("%s: %+v, %v", test.fields, c, err)
		}
	}
}

func TestImageConfigurationRefused(t *testing.T) {
	for fields, want := range map[string]string{
		"maxParallelImagePulls: 0":  "maxParallelImagePulls must be a positive number",
		"maxParallelImagePulls: -1": "maxParallelImagePulls must be a positive number",
		"{serializeImagePulls: true, maxParallelImagePulls: 2}": "maxParallelImagePulls cannot be larger than 1 unless " +
			"SerializeImagePulls (--serialize-image-pulls) set to false",
		"imageGCHighThresholdPercent: 101":                    "must be between 0 and 100",
		"imageMaximumGCAge: 1m":                               "must be greater than imageMinimumGCAge",
		"imagePullCredentialsVerificationPolicy: Some":        "unknown image pull credential verification policy: Some",
		"preloadedImagesVerificationAllowlist: ['reg.io/*a']": "preloadedImagesVerificationAllowlist",
	} {
		if _, err := fromFile(t, fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
	c := NewConfig()
	c.Kubeconfig, c.ImageProviderDir, c.ImagePullProgressDeadline = "some", "/bin", -1
	if err := c.validate(); err == nil || !strings.Contains(err.Error(), "give both or none") ||
		!strings.Contains(err.Error(), "--image-pull-progress-deadline -1ns") {
		t.Errorf("got %v", err)
	}
}
