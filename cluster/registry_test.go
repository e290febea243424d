package cluster

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"quintet.dev/quintet/cluster/internal/backend"
)

// TestRegistryIsOptional: it is a member where it was asked for, nodes trust it, and what they are told of others goes
// to their engines.
func TestRegistryIsOptional(t *testing.T) {
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string][]Option{
		"none": nil, "plain": {WithRegistry()}, "with a user": {WithRegistryUser("me", "pass")},
		"others": {WithRegistryMirror("https://mirror.example"), WithInsecureRegistry("10.0.0.0/8")},
	} {
		config := newConfig("x")
		for _, opt := range opts {
			if err := opt(config); err != nil {
				t.Fatal(err)
			}
		}
		if err := config.check(); err != nil {
			t.Fatal(err)
		}
		members, err := (&layout{config: config, addressing: nowhere{}, ids: ids}).members()
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]backend.Member{}
		for _, m := range members {
			byName[m.Name] = m
		}
		r, has := byName["registry"]
		if wanted := strings.Contains(name, "plain") || strings.Contains(name, "user"); has != wanted ||
			(byName["node-1"].Files["docker/certs.d/registry:5000/ca.crt"] != nil) != wanted {
			t.Errorf("%s: registry %t", name, has)
		}
		if has && (r.Image != "quintet/registry:dev" ||
			!slices.Equal(r.Args, []string{"serve", "/registry/registry/config.yml"}) ||
			!json.Valid(r.Files["registry/config.yml"]) || (r.Files[registryAuth] != nil) != (name == "with a user")) {
			t.Errorf("%s: %+v", name, r.Args)
		}
		if name == "with a user" {
			user, hash, _ := strings.Cut(strings.TrimSpace(string(r.Files["registry/htpasswd"])), ":")
			if user != "me" || bcrypt.CompareHashAndPassword([]byte(hash), []byte("pass")) != nil {
				t.Errorf("htpasswd %s", r.Files["registry/htpasswd"])
			}
		}
		args := string(byName["node-1"].Files["args/dockerd"])
		if want := name == "others"; want != (args ==
			"--registry-mirror=https://mirror.example\n--insecure-registry=10.0.0.0/8\n") || !want && args != "" {
			t.Errorf("%s: arguments of dockerd %q", name, args)
		}
	}
}

func TestRegistryOptionsRefused(t *testing.T) {
	for want, opts := range map[string][]Option{
		"registry: a cluster in process has none":      {WithRegistry(), InProcess()},
		"registry: the cluster has no node":            {WithRegistry(), WithNodes(0)},
		"registries of nodes: a cluster in process":    {WithInsecureRegistry("a:5000"), InProcess()},
		"arguments of registry: it is added by":        {WithArgs(Registry, "x")},
		"user of the registry":                         {WithRegistryUser("a:b", "p")},
		"user of the registry: give a name":            {WithRegistryUser("a", "")},
		`registry mirror "mirror"`:                     {WithRegistryMirror("mirror")},
		`registry mirror "https://a/b"`:                {WithRegistryMirror("https://a/b")},
		`insecure registry "http://a"`:                 {WithInsecureRegistry("http://a")},
		`insecure registry "-a": want HOST, HOST:PORT`: {WithInsecureRegistry("-a")},
	} {
		config := newConfig("x")
		var err error
		for _, opt := range opts {
			if err == nil {
				err = opt(config)
			}
		}
		if err == nil {
			err = config.check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestNameInRegistry(t *testing.T) {
	for ref, want := range map[string]string{
		"mine": "mine:latest", "mine:dev": "mine:dev", "quintet/testimage:dev": "quintet/testimage:dev",
		"reg.io:5000/team/app:1": "team/app:1", "registry:5000/app:1": "app:1",
	} {
		if got, err := nameInRegistry(ref); got != want || err != nil {
			t.Errorf("%s: %s, %v", ref, got, err)
		}
	}
	for _, ref := range []string{"UPPER//", "a@sha256:" + strings.Repeat("a", 64)} {
		if got, err := nameInRegistry(ref); err == nil {
			t.Errorf("%s: %s", ref, got)
		}
	}
	pushed := PushedImage{Reference: "registry:5000/a/b:1", Digest: "sha256:" + strings.Repeat("a", 64)}
	if got := pushed.ByDigest(); got != "registry:5000/a/b@"+pushed.Digest {
		t.Errorf("by digest: %s", got)
	}
}

func TestRegistryImages(t *testing.T) {
	mux := http.NewServeMux()
	many := make([]string, catalogPage)
	for i := range many {
		many[i] = "empty"
	}
	many[3], many[catalogPage-1] = "b", "last"
	mux.HandleFunc("/v2/_catalog", func(w http.ResponseWriter, r *http.Request) {
		page := many
		if r.URL.Query().Get("last") == "last" {
			page = []string{"a/a"}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"repositories": page})
	})
	tags := func(list ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "pass" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"tags": list})
		}
	}
	mux.HandleFunc("/v2/b/tags/list", tags("2", "1"))
	mux.HandleFunc("/v2/a/a/tags/list", tags("1"))
	mux.HandleFunc("/v2/last/tags/list", tags())
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	const all = "registry:5000/a/a:1 registry:5000/b:1 registry:5000/b:2"
	for user, want := range map[string]string{"me": all, "other": ""} {
		api, err := newRegistryAPI(strings.TrimPrefix(server.URL, "https://"), authority, account{user, "pass"})
		if err != nil {
			t.Fatal(err)
		}
		images, err := api.images(t.Context())
		if (err != nil) != (want == "") || strings.Join(images, " ") != want {
			t.Errorf("%s: %v, %v", user, images, err)
		}
	}
	if _, err := newRegistryAPI("a", nil, account{}); err == nil {
		t.Error("no authority is no error")
	}
}
