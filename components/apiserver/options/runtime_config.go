package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/scheme"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

var runtimeConfigUsage = "APIs to serve or not: group/version[/resource]=true|false, " +
	"or api/{all,ga,beta,alpha}=true|false for all of a stage. " +
	"What is GA is served unless it is one of " + strings.Join(spared, ", ") + " and set to false; " +
	"what isn't, is where it is asked for and its feature gate, if it has one, is on. " +
	"Asking for a version or a resource of which nothing is there is an error; " +
	"what of a stage is not there, the log tells when the server starts."

// spared are the groups that the server itself can do without: what of them is GA may be left out. Without any other,
// parts of upstream's server wait for ever for what they can't list, and it never gets ready.
var spared = []string{
	"apps", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch",
	"certificates.k8s.io", "events.k8s.io", "policy",
}

// stages are the names of sets of APIs.
var stages = []string{"api/all", "api/ga", "api/beta", "api/alpha"}

// unbuilt lists what else 1.36 has, and the gates that it takes. This server doesn't serve it, whatever is asked for.
var unbuilt = []struct {
	schema.GroupVersionResource
	gate featuregate.Feature
}{
	{resourceOf("resource.k8s.io/v1alpha3/resourcepoolstatusrequests"), ""},
	{resourceOf("scheduling.k8s.io/v1alpha2/podgroups"), "GenericWorkload"},
	{resourceOf("scheduling.k8s.io/v1alpha2/workloads"), "GenericWorkload"},
}

// resourceOf reads group/version/resource.
func resourceOf(text string) schema.GroupVersionResource {
	parts := strings.Split(text, "/")
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
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

// ServesAPI reports whether RuntimeConfig, or else the release, has a resource of a version served: the more exactly a
// setting names it, the more it counts. CheckRuntimeConfig refuses settings that can't be read.
func (c *Config) ServesAPI(gv schema.GroupVersion, resource string) bool {
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

// CheckRuntimeConfig checks the settings of runtime-config against the known APIs, and logs those that aren't served.
// registered is the scheme of all versions that the server knows; it is only called where there are settings.
func (c *Config) CheckRuntimeConfig(on *gates.Gates, registered func() *runtime.Scheme) error {
	check := apiCheck{gates: on, registered: registered}
	var errs []error
	missing := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(c.RuntimeConfig)) {
		without, err := check.setting(key, c.RuntimeConfig[key])
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
		klog.InfoS("Some APIs of --runtime-config are not served", "asked", key, "missing", missing[key])
	}
	return nil
}

// apiCheck checks settings of RuntimeConfig.
type apiCheck struct {
	gates      *gates.Gates
	registered func() *runtime.Scheme
}

// setting checks one, and returns the APIs it enables that are not served.
func (a *apiCheck) setting(key, value string) (missing []string, err error) {
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
		return a.lacks(func(r schema.GroupVersionResource) bool {
			return key == "api/all" || stageOf(r.Version) == key
		}), nil
	case stage:
		return nil, nil
	}
	asked, err := a.parse(key)
	if err != nil {
		return nil, err
	}
	known := isKnown(asked)
	if !wanted {
		if known && stageOf(asked.Version) == "api/ga" && !slices.Contains(spared, asked.Group) {
			return nil, fmt.Errorf("%s=%s is not supported: the server itself needs it", key, value)
		}
		return nil, nil
	}
	missing = a.lacks(func(r schema.GroupVersionResource) bool {
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

// parse reads group/version or group/version/resource. What is said of the core group, and of anything in it, is said
// of all of it.
func (a *apiCheck) parse(key string) (asked schema.GroupVersionResource, err error) {
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
	case !a.registered().IsGroupRegistered(version.Group) && !scheme.Scheme.IsGroupRegistered(version.Group):
		return asked, fmt.Errorf("unknown api groups %s", version)
	case !a.registered().IsVersionRegistered(version) && !scheme.Scheme.IsVersionRegistered(version):
		return asked, fmt.Errorf("group version %s that has not been registered", version)
	case strings.ToLower(asked.Resource) != asked.Resource:
		return asked, fmt.Errorf("invalid key %s: "+
			"group/version/resource and resource is always lowercase plural, not %q", key, asked.Resource)
	}
	return version.WithResource(asked.Resource), nil
}

// isKnown reports whether the table has a row for a version or a resource, served or not.
func isKnown(asked schema.GroupVersionResource) bool {
	for _, kind := range kinds.Table(api.Deps{}) {
		v := kind.Version(asked.GroupVersion())
		if v != nil && !v.Unserved && (asked.Resource == "" || kind.Resource == asked.Resource) {
			return true
		}
	}
	return false
}

// lacks lists what isn't served of what matches: what isn't built, and what is behind a gate that is off.
func (a *apiCheck) lacks(matches func(schema.GroupVersionResource) bool) []string {
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
	for _, kind := range kinds.Table(api.Deps{}) {
		if kind.Gate != "" && !a.gates.On(kind.Gate) {
			for _, v := range kind.Versions {
				add(v.WithResource(kind.Resource), kind.Gate)
			}
		}
	}
	slices.Sort(out)
	return out
}
