// Package records remembers which images this kubelet pulled, and with whose credentials, so that a pod can't have an
// image of the node that it could not pull (https://kep.k8s.io/2535). The files are those of upstream's kubelet.
package records

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/images/keyring"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// mostNoted is how many secrets of an image are noted without a pull, as upstream's.
const mostNoted = 100

// Manager keeps the records. It is safe for concurrent use.
type Manager struct {
	policy Policy
	clock  clock.PassiveClock

	mu       sync.Mutex // over files and inFlight
	files    files
	inFlight map[string]int // pulls under way, by image
}

// Open makes a manager of the records below root, the kubelet's directory. What was being pulled when the kubelet
// ended, and is there, counts as pulled with unknown credentials.
func Open(ctx context.Context, root string, policy Policy, clock clock.PassiveClock,
	images runtime.Images) (*Manager, error) {
	files, err := newFiles(root)
	if err != nil {
		return nil, err
	}
	m := &Manager{policy: policy, clock: clock, files: files, inFlight: map[string]int{}}
	err = each(files.pulling, func(path string) error {
		var intent kubeletconfig.ImagePullIntent
		if _, err := read(path, &intent); err != nil {
			return err
		}
		image, err := images.Image(ctx, intent.Image)
		if err != nil {
			return nil // it is not there: the intent stays until it is pulled or removed
		}
		if err := m.note(intent.Image, image.ID, nil); err != nil {
			return err
		}
		return files.removeIntent(intent.Image)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Records of pulls that were under way can't all be read")
	}
	return m, nil
}

// Begin notes that an image is going to be pulled. Pulled or Failed ends it.
func (m *Manager) Begin(image string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.files.writeIntent(image); err != nil {
		return err
	}
	m.inFlight[image]++
	return nil
}

// Pulled notes with which credential an image was pulled; nil is none.
func (m *Manager) Pulled(ctx context.Context, image, id string, with *keyring.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.note(image, id, credentialsOf(with)); err != nil {
		klog.FromContext(ctx).Error(err, "Record of a pulled image can't be written", "image", image, "imageID", id)
		return // the intent stays: the image still counts as pulled by this kubelet
	}
	m.end(ctx, image)
}

// Failed notes that an image was not pulled.
func (m *Manager) Failed(ctx context.Context, image string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(ctx, image)
}

func (m *Manager) end(ctx context.Context, image string) {
	if m.inFlight[image] > 1 {
		m.inFlight[image]--
		return
	}
	if err := m.files.removeIntent(image); err != nil {
		klog.FromContext(ctx).Error(err, "Record of a pull can't be removed", "image", image)
		return
	}
	delete(m.inFlight, image)
}

// MustPull tells whether a pod may have an image of the node only if it pulls it. credentials gives those that the pod
// has for it, and is called only if they matter.
func (m *Manager) MustPull(ctx context.Context, image, id string,
	credentials func() ([]keyring.Entry, error)) (bool, error) {
	record, pulled, err := m.known(image, id)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Unable to access cache records about image pulls")
		return true, nil
	}
	if !m.policy.verifies(image, pulled) {
		return false, nil
	}
	name, err := repository(image)
	if record == nil || err != nil {
		return true, nil
	}
	noted, found := record.CredentialMapping[name]
	switch {
	case !found:
		return true, nil
	case noted.NodePodsAccessible:
		return false, nil
	case len(noted.KubernetesSecrets) == 0 && len(noted.KubernetesServiceAccounts) == 0:
		return true, nil
	}
	have, err := credentials()
	if err != nil {
		return false, err
	}
	entry, isNew := holder(&noted, have)
	if isNew && len(noted.KubernetesSecrets) < mostNoted {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.note(image, id, credentialsOf(entry)); err != nil {
			klog.FromContext(ctx).Error(err, "Record of a pulled image can't be written", "image", image, "imageID", id)
		}
	}
	return entry == nil, nil
}

// known reads the record of an image, and tells whether this kubelet pulled it or is about to.
func (m *Manager) known(image, id string) (*kubeletconfig.ImagePulledRecord, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record, err := m.files.record(id)
	if err != nil || record != nil {
		return record, record != nil, err
	}
	if m.inFlight[image] > 0 {
		return nil, true, nil
	}
	intended, err := m.files.intended(image)
	return nil, intended, err
}

// holder finds the first of a pod's credentials that an image was pulled with: the same content, the same secret
// whatever its content is now, or the same service account. isNew tells that it is not noted like this.
func holder(noted *kubeletconfig.ImagePullCredentials, have []keyring.Entry) (entry *keyring.Entry, isNew bool) {
	for i := range have {
		s := have[i].Source.Secret
		if s == nil {
			continue
		}
		own := kubeletconfig.ImagePullSecret{UID: s.UID, Namespace: s.Namespace, Name: s.Name, CredentialHash: have[i].Hash()}
		for _, other := range noted.KubernetesSecrets {
			sameContent := other.CredentialHash != "" && other.CredentialHash == own.CredentialHash
			sameSecret := other.UID == own.UID && other.Namespace == own.Namespace && other.Name == own.Name
			if sameContent || sameSecret {
				return &have[i], !sameContent || !sameSecret
			}
		}
	}
	for i := range have {
		a := have[i].Source.ServiceAccount
		if a != nil && slices.Contains(noted.KubernetesServiceAccounts,
			kubeletconfig.ImagePullServiceAccount{UID: a.UID, Namespace: a.Namespace, Name: a.Name}) {
			return &have[i], false
		}
	}
	return nil, false
}

// Prune drops the records of images that are not among ids, if they were written before at.
func (m *Manager) Prune(ctx context.Context, ids []string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := each(m.files.pulled, func(path string) error {
		var record kubeletconfig.ImagePulledRecord
		if _, err := read(path, &record); err != nil {
			return err
		}
		if !record.LastUpdatedTime.Time.Before(at) || slices.Contains(ids, record.ImageRef) {
			return nil
		}
		return m.files.removeRecord(record.ImageRef)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Records of images that are gone can't all be removed")
	}
}

// note adds credentials to the record of an image; nil makes a record that gives it to no pod.
func (m *Manager) note(image, id string, credentials *kubeletconfig.ImagePullCredentials) error {
	name, err := repository(image)
	if err != nil {
		return err
	}
	record, err := m.files.record(id)
	if err != nil || record == nil {
		record = &kubeletconfig.ImagePulledRecord{ImageRef: id}
	}
	merged, changed := merge(record.CredentialMapping[name], credentials)
	if !changed && !record.LastUpdatedTime.IsZero() {
		return nil
	}
	if changed {
		if record.CredentialMapping == nil {
			record.CredentialMapping = map[string]kubeletconfig.ImagePullCredentials{}
		}
		record.CredentialMapping[name] = merged
	}
	record.LastUpdatedTime = metav1.NewTime(m.clock.Now())
	return m.files.writeRecord(record)
}

// merge adds credentials to those that are noted. An image that needs none is any pod's from then on.
func merge(noted kubeletconfig.ImagePullCredentials,
	more *kubeletconfig.ImagePullCredentials) (kubeletconfig.ImagePullCredentials, bool) {
	switch {
	case more == nil || noted.NodePodsAccessible:
		return noted, false
	case more.NodePodsAccessible:
		return kubeletconfig.ImagePullCredentials{NodePodsAccessible: true}, true
	}
	changed := false
	for _, s := range more.KubernetesSecrets {
		if slices.Contains(noted.KubernetesSecrets, s) {
			continue
		}
		changed = true
		noted.KubernetesSecrets = append(slices.DeleteFunc(noted.KubernetesSecrets,
			func(old kubeletconfig.ImagePullSecret) bool {
				return old.UID == s.UID && old.Namespace == s.Namespace && old.Name == s.Name
			}), s)
	}
	for _, a := range more.KubernetesServiceAccounts {
		if !slices.Contains(noted.KubernetesServiceAccounts, a) {
			noted.KubernetesServiceAccounts, changed = append(noted.KubernetesServiceAccounts, a), true
		}
	}
	return noted, changed
}

func credentialsOf(entry *keyring.Entry) *kubeletconfig.ImagePullCredentials {
	switch {
	case entry == nil || entry.Source.Secret == nil && entry.Source.ServiceAccount == nil:
		return &kubeletconfig.ImagePullCredentials{NodePodsAccessible: true}
	case entry.Source.Secret != nil:
		s := entry.Source.Secret
		return &kubeletconfig.ImagePullCredentials{KubernetesSecrets: []kubeletconfig.ImagePullSecret{{
			UID: s.UID, Namespace: s.Namespace, Name: s.Name, CredentialHash: entry.Hash()}}}
	default:
		a := entry.Source.ServiceAccount
		return &kubeletconfig.ImagePullCredentials{KubernetesServiceAccounts: []kubeletconfig.ImagePullServiceAccount{{
			UID: a.UID, Namespace: a.Namespace, Name: a.Name}}}
	}
}

// repository is an image's name as the container has it, without tag and digest.
func repository(image string) (string, error) {
	parsed, err := reference.Parse(image)
	if err != nil {
		return "", err
	}
	named, ok := parsed.(reference.Named)
	if !ok {
		return "", reference.ErrNameEmpty
	}
	return named.Name(), nil
}
