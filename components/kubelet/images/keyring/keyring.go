// Package keyring finds the credentials for an image among those of secrets, of the node and of credential providers
// (https://kubernetes.io/docs/concepts/containers/images/#config-json).
package keyring

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Coordinates name a secret or a service account.
type Coordinates struct{ UID, Namespace, Name string }

// Source is where a credential is from. The zero value is the node, all of whose pods may use it.
type Source struct{ Secret, ServiceAccount *Coordinates }

// Entry is a credential and where it is from.
type Entry struct {
	runtime.Credential
	Source Source
}

// Hash tells whether two credentials are the same without showing them. It is that of upstream's kubelet.
func (e *Entry) Hash() string {
	data, err := json.Marshal(struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
	}{e.Username, e.Password, e.IdentityToken, e.RegistryToken})
	if err != nil { // of strings
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// Ring holds credentials by what they are for. The zero value is empty.
type Ring struct {
	places  []string // most specific first
	entries map[string][]Entry
}

// Add takes in a configuration. Places that are no addresses are passed over.
func (r *Ring) Add(config Config, source Source) {
	if r.entries == nil {
		r.entries = map[string][]Entry{}
	}
	for place, credential := range config {
		key, ok := placeOf(place)
		if !ok {
			continue
		}
		credential.ServerAddress = place
		r.entries[key] = append(r.entries[key], Entry{credential, source})
		if !slices.Contains(r.places, key) {
			r.places = append(r.places, key)
		}
	}
	slices.Sort(r.places)
	slices.Reverse(r.places)
}

// placeOf is host and path of "https://host/v1/path" and its like.
func placeOf(place string) (string, bool) {
	if !strings.HasPrefix(place, "https://") && !strings.HasPrefix(place, "http://") {
		place = "https://" + place
	}
	parsed, err := url.Parse(place)
	if err != nil {
		return "", false
	}
	path := parsed.Path
	if strings.HasPrefix(path, "/v2/") || strings.HasPrefix(path, "/v1/") {
		path = path[len("/v2"):]
	}
	if path == "/" {
		path = ""
	}
	return parsed.Host + path, true
}

// defaultRegistry is the place of credentials for images whose names tell no registry.
const defaultRegistry = "index.docker.io"

// Lookup returns the credentials for a repository ("docker.io/library/busybox"), those for the most specific place
// first.
func (r *Ring) Lookup(repository string) []Entry {
	var found []Entry
	for _, place := range r.places {
		if Matches(place, repository) {
			found = append(found, r.entries[place]...)
		}
	}
	if len(found) == 0 && inDefaultRegistry(repository) {
		return r.entries[defaultRegistry]
	}
	return found
}

func inDefaultRegistry(repository string) bool {
	host, _, hasHost := strings.Cut(repository, "/")
	switch {
	case host == "":
		return false
	case !hasHost || host == "docker.io" || host == defaultRegistry:
		return true
	}
	return !strings.ContainsAny(host, ".:")
}

// Matches tells whether a pattern is for a repository: as many parts of the domain, each of which matches and may be a
// glob, the same port, and a path that the repository's begins with.
func Matches(pattern, repository string) bool {
	glob, err := url.Parse("https://" + pattern)
	if err != nil {
		return false
	}
	target, err := url.Parse("https://" + repository)
	if err != nil || glob.Port() != target.Port() || !strings.HasPrefix(target.Path, glob.Path) {
		return false
	}
	want, have := strings.Split(glob.Hostname(), "."), strings.Split(target.Hostname(), ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := filepath.Match(want[i], have[i]); !ok || err != nil {
			return false
		}
	}
	return true
}
