package provider

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1"
	api "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/images/keyring"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// Accounts are the service accounts of pods.
type Accounts interface {
	ServiceAccount(ctx context.Context, namespace, name string) (*v1.ServiceAccount, error)
	// Token returns a token of the pod's service account for an audience, bound to the pod.
	Token(ctx context.Context, pod *v1.Pod, audience string) (string, error)
}

// Providers are the programs of a node that know credentials. They are safe for concurrent use; nil are none.
type Providers struct{ all []*plugin }

// plugin is one program, with what it answered.
type plugin struct {
	config   *kubeletconfig.CredentialProvider
	accounts Accounts
	clock    clock.PassiveClock
	exec     func(context.Context, api.CredentialProviderRequest) (*api.CredentialProviderResponse, error)
	flight   singleflight.Group

	mu    sync.Mutex
	known map[string]answer
}

// answer is good until it expires.
type answer struct {
	config  keyring.Config
	expires time.Time
}

// Open reads the configuration in a file or directory, and finds the programs in dir. Errors are upstream's.
func Open(path, dir string, accounts Accounts, clock clock.PassiveClock) (*Providers, error) {
	config, err := ReadConfig(path)
	if err != nil {
		return nil, err
	}
	if err := checkPrograms(config, dir); err != nil {
		return nil, err
	}
	p := &Providers{}
	for i := range config.Providers {
		c := &config.Providers[i]
		p.all = append(p.all, newPlugin(c, accounts, clock,
			func(ctx context.Context, request api.CredentialProviderRequest) (*api.CredentialProviderResponse, error) {
				return run(ctx, dir, c, request)
			}))
	}
	return p, nil
}

func newPlugin(config *kubeletconfig.CredentialProvider, accounts Accounts, clock clock.PassiveClock,
	exec func(context.Context, api.CredentialProviderRequest) (*api.CredentialProviderResponse, error)) *plugin {
	return &plugin{config: config, accounts: accounts, clock: clock, exec: exec, known: map[string]answer{}}
}

// Lookup returns the credentials for a repository that the programs give for a pod. A program that fails gives none.
func (p *Providers) Lookup(ctx context.Context, pod *v1.Pod, repository string) []keyring.Entry {
	if p == nil {
		return nil
	}
	ring := &keyring.Ring{}
	for _, plugin := range p.all {
		if !plugin.serves(repository) {
			continue
		}
		config, source, err := plugin.provide(ctx, pod, repository)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed getting credential from external registry credential provider",
				"provider", plugin.config.Name, "pod", klog.KObj(pod))
			continue
		}
		ring.Add(config, source)
	}
	return ring.Lookup(repository)
}

func (p *plugin) serves(repository string) bool {
	return slices.ContainsFunc(p.config.MatchImages,
		func(pattern string) bool { return keyring.Matches(pattern, repository) })
}

// identity is what a program is told of the pod's service account, and the key under which its answer is kept.
type identity struct {
	token       string
	annotations map[string]string
	source      keyring.Source
	key, flight string
}

func (p *plugin) provide(ctx context.Context, pod *v1.Pod, repository string) (keyring.Config, keyring.Source, error) {
	who, asks, err := p.identify(ctx, pod)
	if err != nil || !asks {
		return nil, keyring.Source{}, err
	}
	registry, _, _ := strings.Cut(repository, "/")
	for _, key := range []string{"image " + repository, "registry " + registry, "global"} {
		if config, ok := p.cached(key + who.key); ok {
			return config, who.source, nil
		}
	}
	result, err, _ := p.flight.Do(repository+who.flight, func() (any, error) {
		// Others wait for the answer, too: it outlives the pod that asked first.
		return p.exec(context.WithoutCancel(ctx), api.CredentialProviderRequest{Image: repository,
			ServiceAccountToken: who.token, ServiceAccountAnnotations: who.annotations})
	})
	if err != nil {
		return nil, keyring.Source{}, err
	}
	response := result.(*api.CredentialProviderResponse)
	config := keyring.Config{}
	for place, auth := range response.Auth {
		config[place] = runtime.Credential{Username: auth.Username, Password: auth.Password}
	}
	var key string
	switch response.CacheKeyType {
	case api.ImagePluginCacheKeyType:
		key = "image " + repository
	case api.RegistryPluginCacheKeyType:
		key = "registry " + registry
	case api.GlobalPluginCacheKeyType:
		key = "global"
	default:
		return nil, keyring.Source{}, fmt.Errorf("credential provider plugin did not return a valid cacheKeyType: %q",
			response.CacheKeyType)
	}
	p.keep(key+who.key, config, response)
	return config, who.source, nil
}

// identify asks for the pod's service account where the program wants to know it; asks is false if the pod is none of
// those that the program is for.
func (p *plugin) identify(ctx context.Context, pod *v1.Pod) (who identity, asks bool, err error) {
	attributes := p.config.TokenAttributes
	name := pod.Spec.ServiceAccountName
	switch {
	case attributes == nil:
		return who, true, nil
	case name == "":
		return who, !*attributes.RequireServiceAccount, nil
	}
	account, err := p.accounts.ServiceAccount(ctx, pod.Namespace, name)
	if err != nil {
		return who, false, fmt.Errorf("failed to get service account %s/%s: %w", pod.Namespace, name, err)
	}
	who.annotations = map[string]string{}
	for _, key := range attributes.RequiredServiceAccountAnnotationKeys {
		value, ok := account.Annotations[key]
		if !ok {
			return who, false, nil
		}
		who.annotations[key] = value
	}
	for _, key := range attributes.OptionalServiceAccountAnnotationKeys {
		if value, ok := account.Annotations[key]; ok {
			who.annotations[key] = value
		}
	}
	who.token, err = p.accounts.Token(ctx, pod, attributes.ServiceAccountTokenAudience)
	if err != nil {
		return who, false, fmt.Errorf("error getting service account token %s/%s: %w", pod.Namespace, name, err)
	}
	coordinates := keyring.Coordinates{UID: string(account.UID), Namespace: account.Namespace, Name: account.Name}
	who.source.ServiceAccount = &coordinates
	key := struct {
		Account     keyring.Coordinates
		Annotations map[string]string
		Token       string
	}{Account: coordinates, Annotations: who.annotations}
	if attributes.CacheType == kubeletconfig.TokenServiceAccountTokenCacheType {
		key.Token = fmt.Sprintf("%x", sha256.Sum256([]byte(who.token)))
	}
	data, err := json.Marshal(key)
	who.key = " " + string(data)
	who.flight = who.key + fmt.Sprintf(" %x", sha256.Sum256([]byte(who.token)))
	return who, true, err
}

func (p *plugin) cached(key string) (keyring.Config, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.known[key]
	return a.config, ok && !p.clock.Now().After(a.expires)
}

// keep keeps an answer for as long as the program says, or else its configuration; what expired goes.
func (p *plugin) keep(key string, config keyring.Config, response *api.CredentialProviderResponse) {
	duration := p.config.DefaultCacheDuration.Duration
	if response.CacheDuration != nil {
		duration = response.CacheDuration.Duration
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for other, a := range p.known {
		if now.After(a.expires) {
			delete(p.known, other)
		}
	}
	if duration > 0 {
		p.known[key] = answer{config, now.Add(duration)}
	}
}
