package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds"
)

var runtimeConfigUsage = "APIs to serve or not: group/version[/resource]=true|false, or api/{all,ga,beta,alpha}=true|false for all of a stage. " +
	"What is GA is served unless it is one of " + strings.Join(spared, ", ") + " and set to false; what isn't, is where it is asked for and its feature gate, if it has one, is on. " +
	"Asking for a version or a resource of which nothing is there is an error; what of a stage is not there, the log tells when the server starts."

// spared are the groups that the server itself can do without: what of them is GA may be left out. Without any other, parts of upstream's
// server wait for ever for what they can't list, and it never gets ready.
var spared = []string{"apps", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io", "events.k8s.io", "policy"}

// stages are the names of sets of APIs.
var stages = []string{"api/all", "api/ga", "api/beta", "api/alpha"}

// unbuilt lists what else 1.36 has, and the gates that it takes. This server doesn't serve it, whatever is asked for.
var unbuilt = []struct {
	schema.GroupVersionResource
	gate featuregate.Feature
}{
	{schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1beta1", Resource: "podcertificaterequests"}, "PodCertificateRequest"},
	{schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1alpha3", Resource: "resourcepoolstatusrequests"}, ""},
	{schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1alpha2", Resource: "podgroups"}, "GenericWorkload"},
	{schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1alpha2", Resource: "workloads"}, "GenericWorkload"},
}

// stageOf is the set that a version belongs to.
func stageOf(version string) string {
	switch {
	case strings.Contains(version, "alpha"):
		return "api/alpha"
	case strings.Contains(version, "beta"):
		return "api/beta"
	}
	return "api/ga"
}

// wanted tells whether --runtime-config, or else the release, has a resource of a version served: the more exactly a setting names it,
// the more it counts. What is wrong with a setting checkAPIs tells.
func (c *Config) wanted(gv schema.GroupVersion, resource string) bool {
	stage := stageOf(gv.Version)
	out := stage == "api/ga"
	for _, key := range []string{"api/all", stage, gv.String(), gv.String() + "/" + resource} {
		if setting, ok := c.RuntimeConfig[key]; ok {
			out, _ = parseSetting(setting)
		}
	}
	return out
}

// parseSetting reads what is behind the = of a setting. Nothing stands for true.
func parseSetting(text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	return strconv.ParseBool(text)
}

// serve marks what of a kind isn't served, and reports whether anything is.
func (s *Server) serve(kind *kinds.Kind) (any bool) {
	on := kind.Gate == "" || s.gates.On(kind.Gate)
	for i := range kind.Versions {
		v := &kind.Versions[i]
		v.Unserved = v.Unserved || !on || !s.config.wanted(v.GroupVersion, kind.Resource)
		any = any || !v.Unserved
	}
	return any
}

// checkAPIs judges the APIs that were asked for by what there is, and tells what of them isn't served.
func (s *Server) checkAPIs() error {
	var errs []error
	missing := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(s.config.RuntimeConfig)) {
		without, err := s.checkAPI(key, s.config.RuntimeConfig[key])
		if err != nil {
			errs = append(errs, fmt.Errorf("--runtime-config: %w", err))
		} else if len(without) > 0 {
			missing[key] = without
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, key := range slices.Sorted(maps.Keys(missing)) {
		klog.InfoS("Not all that --runtime-config asks for is served", "asked", key, "missing", missing[key])
	}
	return nil
}

// checkAPI judges one setting, and returns what it asks for and is not served.
func (s *Server) checkAPI(key, value string) (missing []string, err error) {
	wanted, err := parseSetting(value)
	stage := slices.Contains(stages, key) || key == "api/legacy"
	switch {
	case stage && value != "true" && value != "false":
		return nil, fmt.Errorf("invalid value %s=%s", key, value)
	case err != nil:
		return nil, fmt.Errorf("invalid value of %s: %s, err: %w", key, value, err)
	case !wanted && (key == "api/all" || key == "api/ga" || key == "api/legacy"):
		return nil, fmt.Errorf("%s=%s is not supported: the server itself needs some of what is GA", key, value)
	case stage && wanted:
		return s.lacks(func(r schema.GroupVersionResource) bool { return key == "api/all" || stageOf(r.Version) == key }), nil
	case stage:
		return nil, nil
	}
	asked, err := s.parseAPI(key)
	if err != nil {
		return nil, err
	}
	known := s.knows(asked)
	if !wanted {
		if known && stageOf(asked.Version) == "api/ga" && !slices.Contains(spared, asked.Group) {
			return nil, fmt.Errorf("%s=%s is not supported: the server itself needs it", key, value)
		}
		return nil, nil
	}
	missing = s.lacks(func(r schema.GroupVersionResource) bool {
		return r.GroupVersion() == asked.GroupVersion() && (asked.Resource == "" || r.Resource == asked.Resource)
	})
	switch {
	case known:
		return missing, nil
	case len(missing) > 0:
		return nil, fmt.Errorf("%s=%s is not supported: there is no %s", key, value, strings.Join(missing, ", "))
	case asked.Resource != "":
		return nil, fmt.Errorf("%s=%s is not supported: there is no such resource", key, value)
	}
	return []string{key}, nil // a version that the release knows, but no longer serves
}

// parseAPI reads group/version or group/version/resource. What is said of the core group, and of anything in it, is said of all of it.
func (s *Server) parseAPI(key string) (asked schema.GroupVersionResource, err error) {
	if core := strings.TrimPrefix(key, "api/"); core == "v1" || strings.HasPrefix(core, "v1/") {
		key = "/v1"
	}
	parts := strings.Split(key, "/")
	if len(parts) == 3 {
		asked.Resource, parts = parts[2], parts[:2]
	}
	version, err := schema.ParseGroupVersion(strings.Join(parts, "/"))
	switch {
	case err != nil || len(parts) == 1:
		return asked, fmt.Errorf("runtime-config invalid key %s", key)
	case !s.scheme().IsGroupRegistered(version.Group) && !scheme.Scheme.IsGroupRegistered(version.Group):
		return asked, fmt.Errorf("unknown api groups %s", version)
	case !s.scheme().IsVersionRegistered(version) && !scheme.Scheme.IsVersionRegistered(version):
		return asked, fmt.Errorf("group version %s that has not been registered", version)
	case strings.ToLower(asked.Resource) != asked.Resource:
		return asked, fmt.Errorf("invalid key %s: group/version/resource and resource is always lowercase plural, not %q", key, asked.Resource)
	}
	return version.WithResource(asked.Resource), nil
}

// knows tells whether the table has a row for a version or a resource, served or not.
func (s *Server) knows(asked schema.GroupVersionResource) bool {
	for _, kind := range kinds.Table(kinds.Deps{}) {
		if v := kind.Version(asked.GroupVersion()); v != nil && !v.Unserved && (asked.Resource == "" || kind.Resource == asked.Resource) {
			return true
		}
	}
	return false
}

// lacks lists what isn't served of what matches: what isn't built, and what is behind a gate that is off.
func (s *Server) lacks(matches func(schema.GroupVersionResource) bool) []string {
	var out []string
	add := func(r schema.GroupVersionResource, gate featuregate.Feature) {
		if matches(r) {
			name := r.GroupVersion().String() + "/" + r.Resource
			if gate != "" {
				name += " (feature gate " + string(gate) + ")"
			}
			out = append(out, name)
		}
	}
	for _, r := range unbuilt {
		add(r.GroupVersionResource, r.gate)
	}
	for _, kind := range kinds.Table(kinds.Deps{}) {
		if kind.Gate != "" && !s.gates.On(kind.Gate) {
			for _, v := range kind.Versions {
				add(v.WithResource(kind.Resource), kind.Gate)
			}
		}
	}
	slices.Sort(out)
	return out
}
