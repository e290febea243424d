package records

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/images/keyring"
	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestNewPolicyRefuses(t *testing.T) {
	const listed = kubeletconfig.NeverVerifyAllowlistedImages
	for want, test := range map[string]struct {
		kind    kubeletconfig.ImagePullCredentialsVerificationPolicy
		allowed []string
	}{
		"unknown image pull credential verification policy: Sometimes": {kind: "Sometimes"},
		"can't set `preloadedImagesVerificationAllowlist`":             {kubeletconfig.AlwaysVerify, []string{"a"}},
		"leading/trailing spaces":                                      {listed, []string{" a"}},
		"too short":                                                    {listed, []string{""}},
		"only patterns ending with '/*'":                               {listed, []string{"reg.io/a*"}},
		"not a valid wildcard pattern":                                 {listed, []string{"*.io/a"}},
		"at least registry hostname":                                   {listed, []string{"/*"}},
		"neither tag nor digest":                                       {listed, []string{"reg.io/a:1"}},
		"failed to parse as an image name":                             {listed, []string{"UP//"}},
	} {
		if _, err := NewPolicy(test.kind, test.allowed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestPolicy(t *testing.T) {
	for _, test := range []struct {
		kind             kubeletconfig.ImagePullCredentialsVerificationPolicy
		image            string
		preloaded, pulls bool // whether a pod has to show its right
	}{
		{kubeletconfig.NeverVerify, "reg.io/a:1", false, false},
		{kubeletconfig.NeverVerifyPreloadedImages, "reg.io/a:1", false, true},
		{kubeletconfig.AlwaysVerify, "reg.io/a:1", true, true},
		{kubeletconfig.NeverVerifyAllowlistedImages, "reg.io/a:1", false, false},
		{kubeletconfig.NeverVerifyAllowlistedImages, "reg.io/team/b@sha256:" + strings.Repeat("a", 64), false, false},
		{kubeletconfig.NeverVerifyAllowlistedImages, "reg.io/c:1", true, true},
		{kubeletconfig.NeverVerifyAllowlistedImages, "UP//", true, true},
	} {
		var allowed []string
		if test.kind == kubeletconfig.NeverVerifyAllowlistedImages {
			allowed = []string{"reg.io/a", "reg.io/team/*"}
		}
		policy, err := NewPolicy(test.kind, allowed)
		if err != nil {
			t.Fatal(err)
		}
		if policy.verifies(test.image, false) != test.preloaded || policy.verifies(test.image, true) != test.pulls {
			t.Errorf("%s of %s", test.kind, test.image)
		}
	}
}

// store is the images of a node, by reference.
type store map[string]string

func (s store) Image(_ context.Context, ref string) (runtime.Image, error) {
	if id, ok := s[ref]; ok {
		return runtime.Image{ID: id}, nil
	}
	return runtime.Image{}, runtime.ErrNotFound
}
func (store) Images(context.Context) ([]runtime.Image, error) { return nil, nil }
func (store) Pull(context.Context, string, runtime.Credential) (runtime.Image, error) {
	return runtime.Image{}, errors.ErrUnsupported
}
func (store) RemoveImage(context.Context, string) error { return nil }
func (store) ImageFilesystem(context.Context) (runtime.Filesystem, error) {
	return runtime.Filesystem{}, nil
}

func open(t *testing.T, root string, images store) *Manager {
	t.Helper()
	policy, err := NewPolicy(kubeletconfig.NeverVerifyPreloadedImages, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), root, policy, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), images)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fromSecret(namespace, name, password string) keyring.Entry {
	return keyring.Entry{Credential: runtime.Credential{Username: "me", Password: password},
		Source: keyring.Source{Secret: &keyring.Coordinates{UID: namespace + name, Namespace: namespace, Name: name}}}
}

func fromAccount(uid string) keyring.Entry {
	account := &keyring.Coordinates{UID: uid, Namespace: "ns", Name: "a"}
	return keyring.Entry{Source: keyring.Source{ServiceAccount: account}}
}

func (m *Manager) asks(t *testing.T, image, id string, have ...keyring.Entry) bool {
	t.Helper()
	must, err := m.MustPull(t.Context(), image, id, func() ([]keyring.Entry, error) { return have, nil })
	if err != nil {
		t.Fatal(err)
	}
	return must
}

func pull(t *testing.T, m *Manager, image, id string, with *keyring.Entry) {
	t.Helper()
	if err := m.Begin(image); err != nil {
		t.Fatal(err)
	}
	m.Pulled(t.Context(), image, id, with)
}

func TestMustPull(t *testing.T) {
	const image, id = "reg.io/app:1", "sha256:1"
	mine, renewed, copied := fromSecret("ns", "s", "p"), fromSecret("ns", "s", "new"), fromSecret("other", "s", "p")
	foreign, node, account := fromSecret("other", "s", "x"), keyring.Entry{}, fromAccount("1")
	for name, test := range map[string]struct {
		with  *keyring.Entry
		image string // "" is the one that was pulled
		have  []keyring.Entry
		want  bool
	}{
		"no credential":              {&mine, "", nil, true},
		"the same":                   {&mine, "", []keyring.Entry{mine}, false},
		"renewed":                    {&mine, "", []keyring.Entry{renewed}, false},
		"the same content elsewhere": {&mine, "", []keyring.Entry{foreign, copied}, false},
		"another one":                {&mine, "", []keyring.Entry{foreign}, true},
		"anonymous":                  {nil, "", nil, false},
		"the node's own":             {&node, "", nil, false},
		"another tag":                {&mine, "reg.io/app:2", []keyring.Entry{mine}, false},
		"another name of the image":  {&mine, "reg.io/twin:1", []keyring.Entry{mine}, true},
		"the account":                {&account, "", []keyring.Entry{account}, false},
		"another account":            {&account, "", []keyring.Entry{fromAccount("2")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			m := open(t, root, nil)
			if m.asks(t, image, id) {
				t.Error("a preloaded image has to be pulled")
			}
			pull(t, m, image, id, test.with)
			asked := test.image
			if asked == "" {
				asked = image
			}
			if got := m.asks(t, asked, id, test.have...); got != test.want {
				t.Errorf("must pull: %v", got)
			}
			if got := open(t, root, nil).asks(t, asked, id, test.have...); got != test.want {
				t.Errorf("after a restart: %v", got)
			}
		})
	}
}

// Who was let in by the content of a secret is noted, so that it may be renewed later.
func TestMatchesAreNoted(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	mine := fromSecret("ns", "s", "p")
	pull(t, m, "a:1", "id", &mine)
	if m.asks(t, "a:1", "id", fromSecret("other", "s", "p")) || m.asks(t, "a:1", "id", fromSecret("other", "s", "new")) {
		t.Error("the other secret is not noted")
	}
	record, err := m.files.record("id")
	if err != nil || len(record.CredentialMapping["a"].KubernetesSecrets) != 2 {
		t.Errorf("%+v, %v", record, err)
	}
	pull(t, m, "a:1", "id", nil)
	if m.asks(t, "a:1", "id") {
		t.Error("it can be had without credentials, and is refused")
	}
}

func TestPullsUnderWay(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	for range 2 {
		if err := m.Begin("a:1"); err != nil {
			t.Fatal(err)
		}
	}
	for ends := range 3 {
		if got := m.asks(t, "a:1", "id"); got != (ends < 2) {
			t.Errorf("after %d ends: %v", ends, got)
		}
		m.Failed(t.Context(), "a:1")
	}
}

// A kubelet that ended while it pulled does not know whose credentials the image came with.
func TestInterruptedPulls(t *testing.T) {
	root := t.TempDir()
	m := open(t, root, nil)
	for _, image := range []string{"there:1", "absent:1"} {
		if err := m.Begin(image); err != nil {
			t.Fatal(err)
		}
	}
	m = open(t, root, store{"there:1": "id"})
	if !m.asks(t, "there:1", "id", fromSecret("ns", "s", "p")) || !m.asks(t, "absent:1", "id2") {
		t.Error("who pulled it is not known, and any pod may have it")
	}
	left, err := os.ReadDir(filepath.Join(root, "image_manager", "pulling"))
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestPrune(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	pull(t, m, "a:1", "kept", nil)
	pull(t, m, "b:1", "gone", nil)
	for _, step := range []struct {
		at   int64
		left bool
	}{{1000, true}, {1001, false}} { // what was noted since the images were listed stays
		m.Prune(t.Context(), []string{"kept"}, time.Unix(step.at, 0))
		if record, err := m.files.record("gone"); err != nil || (record != nil) != step.left {
			t.Errorf("at %d: %+v, %v", step.at, record, err)
		}
	}
	if record, err := m.files.record("kept"); err != nil || record == nil {
		t.Errorf("kept: %+v, %v", record, err)
	}
}

// Records that can't be read keep no pod from an image that can be pulled, and give it to none without.
func TestBrokenRecords(t *testing.T) {
	m := open(t, t.TempDir(), nil)
	if err := os.WriteFile(filepath.Join(m.files.pulled, fileName("id")), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !m.asks(t, "a:1", "id") {
		t.Error("a broken record lets any pod have the image")
	}
	pull(t, m, "a:1", "id", nil)
	if m.asks(t, "a:1", "id") {
		t.Error("a broken record is not replaced")
	}
	failure := errors.New("no answer")
	mine := fromSecret("ns", "s", "p")
	pull(t, m, "b:1", "id2", &mine)
	fails := func() ([]keyring.Entry, error) { return nil, failure }
	if _, err := m.MustPull(t.Context(), "b:1", "id2", fails); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

// The files are those that upstream's kubelet reads.
func TestFilesAreUpstreams(t *testing.T) {
	root := t.TempDir()
	m := open(t, root, nil)
	if err := m.Begin("busybox"); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(root, "image_manager", "pulling", "sha256-*"))
	if err != nil || len(entries) != 1 || len(filepath.Base(entries[0])) != len("sha256-")+64 {
		t.Fatalf("%v, %v", entries, err)
	}
	data, err := os.ReadFile(entries[0])
	if want := `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"busybox"}`; err != nil ||
		string(data) != want {
		t.Errorf("%s, %v", data, err)
	}
}
