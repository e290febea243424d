package provider

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

const header = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

const good = `- name: plugin
  matchImages: ["*.reg.io"]
  defaultCacheDuration: 10s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`

func TestReadConfigRefuses(t *testing.T) {
	token := func(fields string) string { return header + good + "  tokenAttributes: {" + fields + "}" }
	const audience, required, keys = "serviceAccountTokenAudience: a, ", "requireServiceAccount: true",
		"ServiceAccountAnnotationKeys: "
	for want, text := range map[string]string{
		"as CredentialProviderConfig":           "apiVersion: v1\nkind: CredentialProviderConfig\n",
		`unknown field "other"`:                 header + good + "  other: 1\n",
		"providers: Required value: at least 1": strings.TrimSuffix(header, "providers:\n"),
		"providers[1].name: Duplicate value":    header + good + good,
		"cannot contain path separator":         header + strings.Replace(good, "plugin", "a/b", 1),
		"cannot be '.' or '..'":                 header + strings.Replace(good, "plugin", "..", 1),
		"cannot contain spaces":                 header + strings.Replace(good, "plugin", "a b", 1),
		"provider name is required":             header + strings.Replace(good, "plugin", `""`, 1),
		"matchImages: Required value":           header + strings.Replace(good, `"*.reg.io"`, "", 1),
		"defaultCacheDuration: Required value": header +
			strings.Replace(good, "  defaultCacheDuration: 10s\n", "", 1),
		"must be greater than or equal to 0":          header + strings.Replace(good, "10s", "-1s", 1),
		"apiVersion: Unsupported value":               header + strings.Replace(good, "io/v1\n", "io/v9\n", 1),
		"serviceAccountTokenAudience: Required value": token("cacheType: Token, " + required),
		"cacheType: Unsupported value":                token(audience + "cacheType: X, " + required),
		"cacheType: Required value":                   token(audience + required),
		"requireServiceAccount: Required value":       token(audience + "cacheType: Token"),
		"requireServiceAccount cannot be false": token(audience +
			"cacheType: Token, requireServiceAccount: false, required" + keys + "[k]"),
		"annotation keys cannot be both required and optional": token(audience +
			"cacheType: Token, " + required + ", required" + keys + "[k], optional" + keys + "[k]"),
		"optionalServiceAccountAnnotationKeys[1]: Duplicate value: \"k": token(audience +
			"cacheType: Token, " + required + ", optional" + keys + "[k, k]"),
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := ReadConfig(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no configuration files") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := ReadConfig("/absent"); err == nil || !strings.Contains(err.Error(), `unable to access path "/absent"`) {
		t.Errorf("no file: %v", err)
	}
}

func TestReadConfigOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": header + good, "a.yml": header + strings.Replace(good, "plugin", "first", 1), "c.txt": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := ReadConfig(dir)
	if err != nil || len(config.Providers) != 2 || config.Providers[0].Name != "first" {
		t.Errorf("%+v, %v", config, err)
	}
}

// write makes a directory with a configuration and the program "plugin".
func write(t *testing.T, script string) (config, dir string) {
	t.Helper()
	dir = t.TempDir()
	config = filepath.Join(t.TempDir(), "config.yaml")
	text := header + good + "  args: [hello]\n  env: [{name: WHO, value: me}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "plugin"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return config, dir
}

func TestOpenFindsPrograms(t *testing.T) {
	config, dir := write(t, "")
	if _, err := Open(config, dir, nil, nil); err == nil || !strings.Contains(err.Error(),
		"plugin binary executable "+dir+"/plugin did not exist") {
		t.Errorf("no program: %v", err)
	}
	if _, err := Open(config, "/absent", nil, nil); err == nil || err.Error() !=
		"plugin binary directory /absent did not exist" {
		t.Errorf("no directory: %v", err)
	}
}

// A real program gets the request, its arguments and environment, and its answer becomes credentials.
func TestPrograms(t *testing.T) {
	const answer = `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse",` +
		`"cacheKeyType":"Image","auth":{"*.reg.io":{"username":"'$WHO-$1'","password":"p"}}}`
	const request = `grep -q '"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1",` +
		`"image":"a.reg.io/app"' || exit 3` + "\n"
	for name, test := range map[string]struct{ script, user, fail string }{
		"answers": {request + "echo '" + answer + "'", "me-hello", ""},
		"fails":   {"echo sorry >&2; exit 2", "", "exit status 2: sorry"},
		"another version": {`echo '{"apiVersion":"v2","kind":"CredentialProviderResponse"}'`, "",
			"did not match expected apiVersion"},
		"another kind": {`echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"X"}'`, "", "error decoding"},
		"no JSON":      {"echo secret", "", "error reading GVK from response"},
		"unknown field": {`echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse",` +
			`"secret":1}'`, "", "error decoding credential provider plugin response from stdout"},
	} {
		config, dir := write(t, test.script)
		p, err := Open(config, dir, nil, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
		if err != nil {
			t.Fatal(err)
		}
		found := p.Lookup(t.Context(), &v1.Pod{}, "a.reg.io/app")
		if len(found) == 0 != (test.user == "") || len(found) > 0 && found[0].Username != test.user {
			t.Errorf("%s: %+v", name, found)
		}
		if _, _, err := p.all[0].provide(t.Context(), &v1.Pod{}, "a.reg.io/app"); (err != nil) != (test.fail != "") ||
			err != nil && (!strings.Contains(err.Error(), test.fail) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fake counts what it is asked.
type fake struct {
	*plugin
	asked  []string
	answer api.CredentialProviderResponse
	now    *clocktesting.FakePassiveClock
}

func newFake(attributes *kubeletconfig.ServiceAccountTokenAttributes) *fake {
	f := &fake{now: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
		answer: api.CredentialProviderResponse{CacheKeyType: api.ImagePluginCacheKeyType,
			Auth: map[string]api.AuthConfig{"reg.io": {Username: "u"}}}}
	config := &kubeletconfig.CredentialProvider{Name: "p", MatchImages: []string{"reg.io", "other.io"},
		DefaultCacheDuration: &metav1.Duration{Duration: time.Minute}, TokenAttributes: attributes}
	f.plugin = newPlugin(config, f, f.now,
		func(_ context.Context, r api.CredentialProviderRequest) (*api.CredentialProviderResponse, error) {
			asked := r.Image
			if r.ServiceAccountToken != "" {
				asked += " " + r.ServiceAccountToken + " " + r.ServiceAccountAnnotations["need"] +
					r.ServiceAccountAnnotations["may"]
			}
			f.asked = append(f.asked, asked)
			return &f.answer, nil
		})
	return f
}

func (f *fake) ServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	if name == "absent" {
		return nil, errors.New("no account")
	}
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-1",
		Annotations: map[string]string{"need": "1", "may": "2", "other": "3"}}}
	if name == "bare" {
		account.Annotations = nil
	}
	return account, nil
}

func (f *fake) Token(_ context.Context, pod *v1.Pod, audience string) (string, error) {
	if audience != "aud" {
		return "", errors.New("audience " + audience)
	}
	return "token-of-" + pod.Name, nil
}

func TestAnswersAreCached(t *testing.T) {
	zero, long := &metav1.Duration{}, &metav1.Duration{Duration: time.Hour}
	for name, test := range map[string]struct {
		key      api.PluginCacheKeyType
		duration *metav1.Duration
		after    time.Duration
		want     int // how often it is asked for two images of a registry and one of another, twice
	}{
		"image":                {api.ImagePluginCacheKeyType, nil, 0, 3},
		"registry":             {api.RegistryPluginCacheKeyType, nil, 0, 2},
		"global":               {api.GlobalPluginCacheKeyType, nil, 0, 1},
		"expired":              {api.ImagePluginCacheKeyType, nil, time.Minute + 1, 6},
		"for longer":           {api.ImagePluginCacheKeyType, long, time.Minute + 1, 3},
		"not at all":           {api.ImagePluginCacheKeyType, zero, 0, 6},
		"a key type of no use": {"Moon", nil, 0, 6},
	} {
		f := newFake(nil)
		f.answer.CacheKeyType, f.answer.CacheDuration = test.key, test.duration
		providers := &Providers{all: []*plugin{f.plugin}}
		for range 2 {
			for _, image := range []string{"reg.io/a", "reg.io/b", "other.io/a", "not.served/a"} {
				found := providers.Lookup(t.Context(), &v1.Pod{}, image)
				if got := len(found) == 1; got != (strings.HasPrefix(image, "reg.io") && test.key != "Moon") {
					t.Errorf("%s: %s has %+v", name, image, found)
				}
			}
			f.now.SetTime(f.now.Now().Add(test.after))
		}
		if len(f.asked) != test.want {
			t.Errorf("%s: asked for %v, want %d", name, f.asked, test.want)
		}
	}
}

func TestServiceAccounts(t *testing.T) {
	yes, no := true, false
	pod := func(name, account string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: v1.PodSpec{ServiceAccountName: account}}
	}
	for name, test := range map[string]struct {
		cache    kubeletconfig.ServiceAccountTokenCacheType
		require  *bool
		required []string
		pods     []*v1.Pod
		want     []string
	}{
		"by account": {"ServiceAccount", &yes, []string{"need"}, []*v1.Pod{pod("a", "sa"), pod("b", "sa")},
			[]string{"reg.io/x token-of-a 12"}},
		"by token": {"Token", &yes, []string{"need"}, []*v1.Pod{pod("a", "sa"), pod("b", "sa"), pod("a", "sa")},
			[]string{"reg.io/x token-of-a 12", "reg.io/x token-of-b 12"}},
		"by accounts": {"ServiceAccount", &yes, nil, []*v1.Pod{pod("a", "sa"), pod("b", "sa2")},
			[]string{"reg.io/x token-of-a 2", "reg.io/x token-of-b 2"}},
		"none, and required":  {"Token", &yes, nil, []*v1.Pod{pod("a", "")}, nil},
		"none":                {"Token", &no, nil, []*v1.Pod{pod("a", "")}, []string{"reg.io/x"}},
		"without annotation":  {"Token", &yes, []string{"need"}, []*v1.Pod{pod("a", "bare")}, nil},
		"that does not exist": {"Token", &yes, nil, []*v1.Pod{pod("a", "absent")}, nil},
	} {
		f := newFake(&kubeletconfig.ServiceAccountTokenAttributes{ServiceAccountTokenAudience: "aud", CacheType: test.cache,
			RequireServiceAccount: test.require, RequiredServiceAccountAnnotationKeys: test.required,
			OptionalServiceAccountAnnotationKeys: []string{"may", "absent"}})
		providers := &Providers{all: []*plugin{f.plugin}}
		for _, pod := range test.pods {
			found := providers.Lookup(t.Context(), pod, "reg.io/x")
			if len(found) == 1 && pod.Spec.ServiceAccountName != "" &&
				(found[0].Source.ServiceAccount == nil || found[0].Source.ServiceAccount.Name != pod.Spec.ServiceAccountName) {
				t.Errorf("%s: source %+v", name, found[0].Source)
			}
		}
		if !slices.Equal(f.asked, test.want) {
			t.Errorf("%s: asked %v, want %v", name, f.asked, test.want)
		}
	}
	if found := (*Providers)(nil).Lookup(t.Context(), &v1.Pod{}, "reg.io/x"); found != nil {
		t.Errorf("no providers have %v", found)
	}
}
