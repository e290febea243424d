package keyring

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, repository string
		want                bool
	}{
		{"registry.io", "registry.io/app", true},
		{"registry.io", "other.io/app", false},
		{"*.registry.io", "a.registry.io/app", true},
		{"*.registry.io", "registry.io/app", false},
		{"*.registry.io", "a.b.registry.io/app", false},
		{"*.*.registry.io", "a.b.registry.io/app", true},
		{"app*.registry.io", "app1.registry.io/x", true},
		{"app*.registry.io", "1app.registry.io/x", false},
		{"registry.*", "registry.io/app", true},
		{"registry.io:5000", "registry.io:5000/app", true},
		{"registry.io:5000", "registry.io:5001/app", false},
		{"registry.io:5000", "registry.io/app", false},
		{"registry.io", "registry.io:5000/app", false},
		{"registry.io/team", "registry.io/team/app", true},
		{"registry.io/team", "registry.io/team2/app", true}, // a prefix of the path, as upstream
		{"registry.io/team", "registry.io/other/app", false},
		{"[", "registry.io/app", false},
	} {
		if got := Matches(test.pattern, test.repository); got != test.want {
			t.Errorf("%s for %s: %v", test.pattern, test.repository, got)
		}
	}
}

func users(entries []Entry) string {
	var names []string
	for i := range entries {
		names = append(names, entries[i].Username)
	}
	return strings.Join(names, " ")
}

func TestLookup(t *testing.T) {
	var ring Ring
	ring.Add(Config{
		"https://index.docker.io/v1/": {Username: "hub"}, "https://reg.io/v1/": {Username: "host"},
		"reg.io/team": {Username: "team"}, "http://reg.io:5000/v2/": {Username: "port"}, "*.reg.io": {Username: "glob"},
		"https://reg.io/v2/deep/er": {Username: "deeper"}, "https://%": {Username: "no address"},
	}, Source{})
	ring.Add(Config{"reg.io": {Username: "second"}}, Source{Secret: &Coordinates{Name: "s"}})
	for repository, want := range map[string]string{
		"reg.io/app":                "host second",
		"reg.io/team/app":           "team host second",
		"reg.io/deep/er/app":        "deeper host second",
		"reg.io:5000/app":           "port",
		"a.reg.io/app":              "glob",
		"docker.io/library/busybox": "hub",
		"busybox":                   "hub",
		"user/app":                  "hub",
		"other.io/app":              "",
	} {
		if got := users(ring.Lookup(repository)); got != want {
			t.Errorf("%s: %q, want %q", repository, got, want)
		}
	}
	if found := ring.Lookup("reg.io/app"); found[1].Source.Secret == nil || found[0].Source.Secret != nil {
		t.Errorf("sources: %+v", found)
	}
	if len((&Ring{}).Lookup("busybox")) != 0 {
		t.Error("an empty ring has credentials")
	}
}

func TestHash(t *testing.T) {
	a, b := Entry{Credential: runtime.Credential{Username: "u", Password: "p"}}, Entry{}
	same := a
	same.Source.Secret = &Coordinates{Name: "other"}
	if a.Hash() == b.Hash() || a.Hash() != same.Hash() || len(a.Hash()) != 64 {
		t.Errorf("%s, %s, %s", a.Hash(), b.Hash(), same.Hash())
	}
}

func secret(name string, kind v1.SecretType, key, data string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "uid-1"}, Type: kind,
		Data: map[string][]byte{key: []byte(data)}}
}

func TestFromSecrets(t *testing.T) {
	padded := base64.StdEncoding.EncodeToString([]byte("me:pass"))
	raw := base64.RawStdEncoding.EncodeToString([]byte("me:pa:ss"))
	for name, test := range map[string]struct {
		secret               *v1.Secret
		user, password, fail string
	}{
		"json": {secret("s", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey,
			`{"auths":{"reg.io":{"auth":"`+padded+`"}}}`), "me", "pass", ""},
		"json, not padded": {secret("s", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey,
			`{"auths":{"reg.io":{"auth":"`+raw+`"}}}`), "me", "pa:ss", ""},
		"old": {secret("s", v1.SecretTypeDockercfg, v1.DockerConfigKey,
			`{"reg.io":{"username":"me","password":"pass","email":"x"}}`), "me", "pass", ""},
		"another type": {secret("s", v1.SecretTypeOpaque, v1.DockerConfigJsonKey, `{"auths":{"reg.io":{"username":"me"}}}`),
			"", "", ""},
		"empty": {secret("s", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, ""), "", "", ""},
		"no JSON": {secret("s", v1.SecretTypeDockerConfigJson, v1.DockerConfigJsonKey, "x"), "", "",
			"invalid character"},
		"no password": {secret("s", v1.SecretTypeDockercfg, v1.DockerConfigKey, `{"reg.io":{"auth":"bWU="}}`), "", "",
			"must be formatted as base64(username:password)"},
		"not encoded": {secret("s", v1.SecretTypeDockercfg, v1.DockerConfigKey, `{"reg.io":{"auth":"!"}}`), "", "",
			"illegal base64"},
	} {
		ring, err := FromSecrets([]*v1.Secret{test.secret})
		if (err != nil) != (test.fail != "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		found := ring.Lookup("reg.io/app")
		if len(found) == 0 && test.user == "" {
			continue
		}
		if len(found) != 1 || found[0].Username != test.user || found[0].Password != test.password ||
			*found[0].Source.Secret != (Coordinates{"uid-1", "ns", "s"}) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

func TestFromFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	absent := filepath.Join(dir, "absent")
	good := write("good", `{"auths":{"reg.io":{"username":"node"}}}`)
	other := write("other", `{"auths":{"reg.io":{"username":"other"}}}`)
	ring, err := FromFiles(absent, good, other)
	if err != nil || users(ring.Lookup("reg.io/app")) != "node" {
		t.Errorf("%+v, %v", ring, err)
	}
	if ring, err := FromFiles(absent); err != nil || len(ring.Lookup("reg.io/app")) != 0 {
		t.Errorf("no file: %+v, %v", ring, err)
	}
	bad := write("bad", "x")
	if _, err := FromFiles(bad); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("bad file: %v", err)
	}
}
