package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"quintet.dev/quintet/internal/strictyaml"
)

// registryUserSpec is the user of the registry. The password is in a file of its own, so that this one can be shown.
type registryUserSpec struct {
	Name         string `json:"name"`
	PasswordFile string `json:"passwordFile"`
}

func (s *clusterSpec) registrySettings(dir string, d *strictyaml.Decoder) (settings []setting, errs []error) {
	for i, mirror := range s.RegistryMirrors {
		settings = append(settings, setting{fmt.Sprintf("registryMirrors[%d]", i), WithRegistryMirror(mirror)})
	}
	for i, host := range s.InsecureRegistries {
		settings = append(settings, setting{fmt.Sprintf("insecureRegistries[%d]", i), WithInsecureRegistry(host)})
	}
	if s.RegistryUser == nil {
		return settings, nil
	}
	const path = "registryUser"
	if s.RegistryUser.PasswordFile == "" {
		return settings, []error{d.At(path, errors.New("give passwordFile: the path of a file with the password"))}
	}
	password, err := os.ReadFile(within(dir, s.RegistryUser.PasswordFile))
	if err != nil {
		return settings, []error{d.At(path+".passwordFile", err)}
	}
	user := WithRegistryUser(s.RegistryUser.Name, strings.TrimRight(string(password), "\r\n"))
	return append(settings, setting{path, user}), nil
}
