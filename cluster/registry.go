package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"quintet.dev/quintet/cluster/internal/backend"
)

// PushedImage is an image of the cluster's registry.
type PushedImage struct {
	// Reference is what pods of the cluster ask for.
	Reference string
	// Digest is that of its manifest, "sha256:...".
	Digest string
}

// ByDigest is a reference that means this image and no later one of its name.
func (p PushedImage) ByDigest() string {
	named, err := reference.ParseNormalizedNamed(p.Reference)
	if err != nil {
		return ""
	}
	return named.Name() + "@" + p.Digest
}

// PushImage pushes an image of the local Docker engine to the cluster's registry, under its own name there, and returns
// what pods call it.
func (c *Cluster) PushImage(ctx context.Context, ref string) (PushedImage, error) {
	m, err := c.registryMember()
	if err != nil {
		return PushedImage{}, err
	}
	name, err := nameInRegistry(ref)
	if err != nil {
		return PushedImage{}, fmt.Errorf("push image %s: %w", ref, err)
	}
	user, err := c.registryAccount(ctx, m)
	if err != nil {
		return PushedImage{}, err
	}
	digest, err := c.backend.Push(ctx, ref, name, m.instance,
		backend.Registry{Port: registryPort, Username: user.Username, Password: user.Password})
	if err != nil {
		return PushedImage{}, fmt.Errorf("push image %s: %w", ref, err)
	}
	return PushedImage{Reference: RegistryHost + "/" + name, Digest: digest}, nil
}

// nameInRegistry is an image's name without its registry, with a tag.
func nameInRegistry(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	if _, digested := named.(reference.Digested); digested {
		return "", errors.New("a digest is no name for a push: give the image a tag")
	}
	path := reference.Path(named)
	if reference.Domain(named) == "docker.io" {
		path = strings.TrimPrefix(path, "library/")
	}
	tagged, ok := reference.TagNameOnly(named).(reference.Tagged)
	if !ok {
		return "", errors.New("it has no tag")
	}
	return path + ":" + tagged.Tag(), nil
}

func (c *Cluster) registryMember() (*Member, error) {
	members := c.Component(Registry).Members
	if len(members) == 0 {
		return nil, fmt.Errorf("cluster %s has no registry: start it WithRegistry (`quintet up --with registry`)",
			c.config.name)
	}
	return members[0], nil
}

// registryAccount reads the registry's user from the member's files, which are there without one.
func (c *Cluster) registryAccount(ctx context.Context, m *Member) (account, error) {
	if user := c.config.registryUser; user != (account{}) {
		return user, nil
	}
	content, err := m.instance.ReadFile(ctx, registryAuth)
	if errors.Is(err, backend.ErrNoFile) {
		return account{}, nil
	}
	if err != nil {
		return account{}, err
	}
	var config dockerConfig
	err = json.Unmarshal(content, &config)
	return config.Auths[RegistryHost], err
}

// RegistryImages lists the images of the cluster's registry, as pods call them, sorted.
func (c *Cluster) RegistryImages(ctx context.Context) ([]string, error) {
	m, err := c.registryMember()
	if err != nil {
		return nil, err
	}
	user, err := c.registryAccount(ctx, m)
	if err != nil {
		return nil, err
	}
	endpoint, err := c.backend.Endpoint(ctx, m.instance, registryPort)
	if err != nil {
		return nil, err
	}
	api, err := newRegistryAPI(endpoint, c.rest.CAData, user)
	if err != nil {
		return nil, err
	}
	defer api.client.CloseIdleConnections()
	return api.images(ctx)
}

// registryReady waits until the registry answers.
func (s *start) registryReady(ctx context.Context) error {
	names := s.cluster.config.names(Registry)
	api, err := newRegistryAPI(s.layout.addressing.Endpoint(names[0], registryPort), s.cluster.rest.CAData,
		s.cluster.config.registryUser)
	if err != nil {
		return err
	}
	defer api.client.CloseIdleConnections()
	return until(ctx, func(ctx context.Context) error { return api.get(ctx, "/v2/", nil) })
}

// registryAPI is the distribution API of a registry.
type registryAPI struct {
	client *http.Client
	base   string
	user   account
}

// registryTimeout bounds one request to the registry.
const registryTimeout = 10 * time.Second

func newRegistryAPI(endpoint string, authority []byte, user account) (*registryAPI, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("the cluster's kubeconfig has no authority")
	}
	return &registryAPI{base: "https://" + endpoint, user: user, client: &http.Client{Timeout: registryTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}}, nil
}

func (a *registryAPI) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	if a.user != (account{}) {
		request.SetBasicAuth(a.user.Username, a.user.Password)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return errNoImage
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the registry answers %s", response.Status)
	}
	if into == nil {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// errNoImage tells that a repository has no images (any more).
var errNoImage = errors.New("no such image")

// catalogPage is how many repositories are asked for at a time.
const catalogPage = 100

func (a *registryAPI) images(ctx context.Context) ([]string, error) {
	images := []string{}
	for last := ""; ; {
		var page struct{ Repositories []string }
		if err := a.get(ctx, fmt.Sprintf("/v2/_catalog?n=%d&last=%s", catalogPage, last), &page); err != nil {
			return nil, err
		}
		for _, repository := range page.Repositories {
			var tags struct{ Tags []string }
			err := a.get(ctx, "/v2/"+repository+"/tags/list", &tags)
			if err != nil && !errors.Is(err, errNoImage) {
				return nil, err
			}
			for _, tag := range tags.Tags {
				images = append(images, RegistryHost+"/"+repository+":"+tag)
			}
		}
		if len(page.Repositories) < catalogPage {
			slices.Sort(images)
			return images, nil
		}
		last = page.Repositories[len(page.Repositories)-1]
	}
}
