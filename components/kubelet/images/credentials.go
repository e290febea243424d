package images

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/images/keyring"
	"quintet.dev/quintet/components/kubelet/images/provider"

	"k8s.io/klog/v2"
)

// Secrets gives the pull secrets of pods.
type Secrets interface {
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Credentials are where a pod's credentials for images come from: its secrets first, then the node's files, then
// programs. It is safe for concurrent use. The zero value has none.
type Credentials struct {
	Secrets Secrets
	// Files are the node's own, as ~/.docker/config.json; the first that there is counts.
	Files     []string
	Providers *provider.Providers
}

// lookup returns the credentials that a pod has for a repository. Secrets that can't be read are told as an event.
func (c *Credentials) lookup(ctx context.Context, pod *v1.Pod, repository string,
	record Record) ([]keyring.Entry, error) {
	secrets, failed := c.secrets(ctx, pod)
	if len(failed) > 0 {
		record(v1.EventTypeWarning, "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (%s); "+
			"attempting to pull the image may not succeed.", strings.Join(failed, ", "))
	}
	own, err := keyring.FromSecrets(secrets)
	if err != nil {
		return nil, err
	}
	node, err := keyring.FromFiles(c.Files...)
	if err != nil { // a file of the node keeps no pod from public images
		klog.FromContext(ctx).Error(err, "Credentials of the node can't be read")
		node = &keyring.Ring{}
	}
	asked := c.Providers.Lookup(ctx, pod, repository)
	return slices.Concat(own.Lookup(repository), node.Lookup(repository), asked), nil
}

// secrets reads the pod's pull secrets, which are its service account's where it names none (ServiceAccount admission).
func (c *Credentials) secrets(ctx context.Context, pod *v1.Pod) (found []*v1.Secret, failed []string) {
	if c.Secrets == nil {
		return nil, nil
	}
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" { // which earlier API servers let pass
			continue
		}
		secret, err := c.Secrets.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			failed = append(failed, ref.Name)
			continue
		}
		found = append(found, secret)
	}
	return found, failed
}
