package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"quintet.dev/quintet/components/kubelet/imagegc"
	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/images/provider"
	"quintet.dev/quintet/components/kubelet/images/records"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/volumes"
)

func (c *Config) addImageFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.SerializeImagePulls, "serialize-image-pulls", c.SerializeImagePulls, "Pull one image at a time.")
	fs.Int32Var(&c.RegistryQPS, "registry-qps", c.RegistryQPS, "Pulls of images per second; 0 is no limit.")
	fs.Int32Var(&c.RegistryBurst, "registry-burst", c.RegistryBurst,
		"Pulls of images that may exceed --registry-qps for a moment; it counts only if that is not 0.")
	fs.Int32Var(&c.ImageGCHighThreshold, "image-gc-high-threshold", c.ImageGCHighThreshold,
		"Percent of the disk in use from which on unused images are removed; 100 turns it off.")
	fs.Int32Var(&c.ImageGCLowThreshold, "image-gc-low-threshold", c.ImageGCLowThreshold,
		"Percent of the disk in use down to which unused images are removed.")
	fs.DurationVar(&c.ImageMinimumGCAge, "minimum-image-ttl-duration", c.ImageMinimumGCAge,
		"How long an unused image stays at least.")
	fs.StringVar(&c.ImageProviderConfig, "image-credential-provider-config", c.ImageProviderConfig,
		"CredentialProviderConfig (kubelet.config.k8s.io/v1), a file or a directory of such.")
	fs.StringVar(&c.ImageProviderDir, "image-credential-provider-bin-dir", c.ImageProviderDir,
		"Directory of the programs that --image-credential-provider-config names.")
	fs.DurationVar(&c.ImagePullProgressDeadline, "image-pull-progress-deadline", c.ImagePullProgressDeadline,
		"How long a pull may make no progress before it is ended; 0 is for ever.")
}

func (c *Config) imageSettings(f *kubeletconfig.KubeletConfiguration) []setting {
	return []setting{
		{"serializeImagePulls", "serialize-image-pulls", func() {
			if f.SerializeImagePulls != nil {
				c.SerializeImagePulls = *f.SerializeImagePulls
			} else if f.MaxParallelImagePulls != nil { // more than one at a time are not serialized
				c.SerializeImagePulls = *f.MaxParallelImagePulls < 2
			}
		}},
		{"maxParallelImagePulls", "", func() {
			if f.MaxParallelImagePulls != nil {
				c.MaxParallelImagePulls = *f.MaxParallelImagePulls
				if c.MaxParallelImagePulls == 0 {
					c.MaxParallelImagePulls = -1 // which no kubelet takes
				}
			}
		}},
		{"registryPullQPS", "registry-qps", pointer(&c.RegistryQPS, f.RegistryPullQPS)},
		{"registryBurst", "registry-burst", number(&c.RegistryBurst, f.RegistryBurst)},
		{"imageGCHighThresholdPercent", "image-gc-high-threshold",
			pointer(&c.ImageGCHighThreshold, f.ImageGCHighThresholdPercent)},
		{"imageGCLowThresholdPercent", "image-gc-low-threshold",
			pointer(&c.ImageGCLowThreshold, f.ImageGCLowThresholdPercent)},
		{"imageMinimumGCAge", "minimum-image-ttl-duration", duration(&c.ImageMinimumGCAge, f.ImageMinimumGCAge)},
		{"imageMaximumGCAge", "", duration(&c.ImageMaximumGCAge, f.ImageMaximumGCAge)},
		{"imagePullCredentialsVerificationPolicy", "", func() {
			if f.ImagePullCredentialsVerificationPolicy != "" {
				c.ImageVerification = f.ImagePullCredentialsVerificationPolicy
			}
		}},
		{"preloadedImagesVerificationAllowlist", "", func() {
			if len(f.PreloadedImagesVerificationAllowlist) > 0 {
				c.ImageVerificationList = f.PreloadedImagesVerificationAllowlist
			}
		}},
	}
}

func (c *Config) showImages(f *kubeletconfig.KubeletConfiguration) {
	f.SerializeImagePulls = &c.SerializeImagePulls
	if c.MaxParallelImagePulls > 0 {
		f.MaxParallelImagePulls = &c.MaxParallelImagePulls
	}
	f.RegistryPullQPS, f.RegistryBurst = &c.RegistryQPS, c.RegistryBurst
	f.ImageGCHighThresholdPercent, f.ImageGCLowThresholdPercent = &c.ImageGCHighThreshold, &c.ImageGCLowThreshold
	f.ImageMinimumGCAge, f.ImageMaximumGCAge = metaDuration(c.ImageMinimumGCAge), metaDuration(c.ImageMaximumGCAge)
	f.ImagePullCredentialsVerificationPolicy = c.ImageVerification
	f.PreloadedImagesVerificationAllowlist = c.ImageVerificationList
}

func (c *Config) imagePolicy() imagegc.Policy {
	return imagegc.Policy{HighThreshold: c.ImageGCHighThreshold, LowThreshold: c.ImageGCLowThreshold,
		MinimumAge: c.ImageMinimumGCAge, MaximumAge: c.ImageMaximumGCAge}
}

// validateImages tells what is wrong with what is said of images, in upstream's words.
func (c *Config) validateImages(bad func(format string, args ...any)) {
	if err := c.imagePolicy().Validate(); err != nil {
		bad("%w", err)
	}
	if c.RegistryQPS < 0 {
		bad("invalid configuration: registryPullQPS (--registry-qps) %v must not be a negative number", c.RegistryQPS)
	}
	if c.RegistryBurst < 0 {
		bad("invalid configuration: registryBurst (--registry-burst) %v must not be a negative number", c.RegistryBurst)
	}
	switch {
	case c.MaxParallelImagePulls < 0:
		bad("invalid configuration: maxParallelImagePulls must be a positive number")
	case c.MaxParallelImagePulls > 1 && c.SerializeImagePulls:
		bad("invalid configuration: maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls " +
			"(--serialize-image-pulls) set to false")
	}
	if _, err := records.NewPolicy(c.ImageVerification, c.ImageVerificationList); err != nil {
		bad("%w", err)
	}
	if (c.ImageProviderConfig == "") != (c.ImageProviderDir == "") {
		bad("--image-credential-provider-config and --image-credential-provider-bin-dir: give both or none")
	}
	if c.engineKind() == "cri" && c.ImagePullProgressDeadline != NewConfig().ImagePullProgressDeadline {
		bad("--image-pull-progress-deadline %v: an engine behind CRI does not tell how a pull gets on",
			c.ImagePullProgressDeadline)
	}
	if c.ImagePullProgressDeadline < 0 {
		bad("--image-pull-progress-deadline %v: use a duration that is not negative", c.ImagePullProgressDeadline)
	}
}

// puller pulls images with the pods' secrets alone; keepImages adds what lies on the node.
func (k *Kubelet) puller(engine runtime.Engine, p *parts) *images.Puller {
	parallel := int(k.config.MaxParallelImagePulls)
	if k.config.SerializeImagePulls {
		parallel = 1
	}
	puller := &images.Puller{
		Images: engine, Credentials: images.Credentials{Secrets: p.objects}, Clock: k.clock, Parallel: parallel,
		Limits: plan.Limits{Initial: firstBackoff, Max: maxImageBackoff}, Pulled: k.metrics.Pulled,
	}
	if qps := k.config.RegistryQPS; qps > 0 && !p.simulated.Network {
		puller.Rate = flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(qps), int(k.config.RegistryBurst),
			k.clock)
	}
	return puller
}

// keepImages gives the puller the node's credentials and records, and makes what removes images.
func (k *Kubelet) keepImages(ctx context.Context, client kubernetes.Interface, engine runtime.Engine,
	puller *images.Puller, p *parts, recorder record.EventRecorder) error {
	c := &k.config
	policy, err := records.NewPolicy(c.ImageVerification, c.ImageVerificationList)
	if err != nil {
		return err
	}
	if puller.Records, err = records.Open(ctx, c.RootDir, policy, k.clock, engine); err != nil {
		return fmt.Errorf("records of images: %w", err)
	}
	puller.Credentials.Files = credentialFiles(c.RootDir)
	if c.ImageProviderConfig != "" {
		accounts := accounts{client: client, tokens: p.storage.volumes.Tokens}
		puller.Credentials.Providers, err = provider.Open(c.ImageProviderConfig, c.ImageProviderDir, accounts, k.clock)
		if err != nil {
			return fmt.Errorf("failed to register CRI auth plugins: %w", err)
		}
	}
	ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.name, UID: types.UID(k.name)}
	p.images = imagegc.New(imagegc.Config{
		Engine: engine, Policy: c.imagePolicy(), Pinned: []string{c.PauseImage}, Clock: k.clock,
		Mounted: p.storage.volumes.ImagesInUse,
		Event:   func(kind, reason, message string) { recorder.Event(ref, kind, reason, message) },
		Listed:  func(ids []string, at time.Time) { puller.Records.Prune(ctx, ids, at) },
	})
	return nil
}

// credentialFiles are where a kubelet looks for the node's own credentials.
func credentialFiles(root string) []string {
	files := []string{filepath.Join(root, "config.json")}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".docker", "config.json"))
	}
	return append(files, "/.docker/config.json")
}

// accounts are the service accounts of pods, as a node may ask for them.
type accounts struct {
	client kubernetes.Interface
	tokens *volumes.Tokens
}

// ServiceAccount implements provider.Accounts.
func (a accounts) ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return a.client.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Token implements provider.Accounts.
func (a accounts) Token(ctx context.Context, pod *v1.Pod, audience string) (string, error) {
	return a.tokens.Get(ctx, pod, &v1.ServiceAccountTokenProjection{Audience: audience})
}
