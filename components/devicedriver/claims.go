package devicedriver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"quintet.dev/quintet/internal/durable"
)

// Parameters configure the containers that use a claim: the opaque parameters of the driver in a claim or DeviceClass.
type Parameters struct {
	APIVersion string `json:"apiVersion"` // "device.quintet.dev/v1"
	Kind       string `json:"kind"`       // "Parameters"
	// Env are further variables of the containers.
	Env map[string]string `json:"env,omitempty"`
}

// ParametersVersion is the API version of Parameters.
const ParametersVersion = Name + "/v1"

// decode reads parameters, and refuses what is none.
func decode(raw []byte) (*Parameters, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	p := &Parameters{}
	if err := decoder.Decode(p); err != nil {
		return nil, fmt.Errorf("opaque parameters: %w", err)
	}
	if p.APIVersion != ParametersVersion || p.Kind != "Parameters" {
		return nil, fmt.Errorf("opaque parameters: %s of %q: use Parameters of %q", p.Kind, p.APIVersion, ParametersVersion)
	}
	return p, nil
}

// preparedClaim is what is kept of a claim that is prepared.
type preparedClaim struct {
	UID             types.UID
	Namespace, Name string
	Devices         []preparedDevice
}

type preparedDevice struct {
	Request, Pool, Device string
	Admin                 bool // without claiming it for itself
}

// claims prepares claims. One call is made at a time.
type claims struct {
	config *Config
}

func (c *claims) dir() string { return filepath.Join(c.config.Root, "claims") }

func (c *claims) record(uid types.UID) string { return filepath.Join(c.dir(), string(uid)+".json") }

// kind is that of the CDI devices of claims.
func (c *claims) kind() string { return c.config.DriverName + "/claim" }

// spec is the file name of the CDI specification of a claim.
func (c *claims) spec(uid types.UID) string { return fileOf(c.kind() + "_" + string(uid)) }

// list reads all that is prepared.
func (c *claims) list() ([]preparedClaim, error) {
	entries, err := os.ReadDir(c.dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []preparedClaim
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue // one that was being written
		}
		content, err := os.ReadFile(filepath.Join(c.dir(), entry.Name()))
		if err != nil {
			return nil, err
		}
		var one preparedClaim
		if err := json.Unmarshal(content, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		list = append(list, one)
	}
	return list, nil
}

// prepare makes the CDI devices of a claim. It is idempotent.
func (c *claims) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	prepared := preparedClaim{UID: claim.UID, Namespace: claim.Namespace, Name: claim.Name}
	allocation := claim.Status.Allocation.Devices
	cdiSpec := newSpec(c.kind())
	var devices []kubeletplugin.Device
	for i := range allocation.Results {
		result := &allocation.Results[i]
		if result.Driver != c.config.DriverName || result.Pool != c.config.NodeName {
			continue
		}
		env, err := c.environment(result.Request, allocation.Config)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s-%d", claim.UID, i)
		cdiSpec.add(name, c.edits(result, env))
		admin := result.AdminAccess != nil && *result.AdminAccess
		prepared.Devices = append(prepared.Devices, preparedDevice{result.Request, result.Pool, result.Device, admin})
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
			ShareID: result.ShareID, CDIDeviceIDs: []string{qualified(c.kind(), name)},
		})
	}
	if err := c.checkUse(&prepared); err != nil {
		return nil, err
	}
	content, err := json.Marshal(prepared)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.dir(), 0o750); err != nil {
		return nil, err
	}
	if err := durable.ReplaceFile(c.record(claim.UID), content, 0o600); err != nil {
		return nil, err
	}
	if len(devices) == 0 {
		return nil, nil
	}
	return devices, cdiSpec.write(c.config.CDIDir, c.spec(claim.UID))
}

// unprepare removes the CDI devices of a claim. It is idempotent.
func (c *claims) unprepare(uid types.UID) error {
	if err := remove(filepath.Join(c.config.CDIDir, c.spec(uid))); err != nil {
		return err
	}
	return remove(c.record(uid))
}

// checkUse refuses devices that another claim has.
func (c *claims) checkUse(claim *preparedClaim) error {
	all, err := c.list()
	if err != nil {
		return err
	}
	taken := map[string]string{}
	for _, other := range all {
		for _, d := range other.Devices {
			if other.UID != claim.UID && !d.Admin {
				taken[d.Device] = other.Namespace + "/" + other.Name
			}
		}
	}
	for _, d := range claim.Devices {
		if other := taken[d.Device]; other != "" && !d.Admin {
			return fmt.Errorf("device %s is prepared for claim %s already", d.Device, other)
		}
	}
	return nil
}

// edits tell a container which device it has, and for which request.
func (c *claims) edits(result *resourceapi.DeviceRequestAllocationResult, env []string) edits {
	return edits{
		Env: append([]string{"QUINTET_CLAIM_" + variable(result.Device) + "=" + result.Request}, env...),
		DeviceNodes: []*cdi.DeviceNode{{
			Path: filepath.Join(deviceDir, result.Device), HostPath: c.config.HostDevice, Permissions: "rw",
		}},
	}
}

// environment returns the variables that the configuration asks for of a request; what comes later wins, and what the
// claim says comes after what its class does.
func (c *claims) environment(request string, configs []resourceapi.DeviceAllocationConfiguration) ([]string, error) {
	var env []string
	for i := range configs {
		config := &configs[i]
		if config.Opaque == nil || config.Opaque.Driver != c.config.DriverName || !concerns(config.Requests, request) {
			continue
		}
		parameters, err := decode(config.Opaque.Parameters.Raw)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(parameters.Env)) {
			env = append(env, name+"="+parameters.Env[name])
		}
	}
	return env, nil
}

// concerns tells whether a configuration of requests is one of a request; none are all, and one is all its subrequests.
func concerns(requests []string, request string) bool {
	for _, r := range requests {
		if r == request || strings.HasPrefix(request, r+"/") {
			return true
		}
	}
	return len(requests) == 0
}
