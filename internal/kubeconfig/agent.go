package kubeconfig

import (
	"strings"

	"k8s.io/client-go/rest"
)

// AddUserAgent names a client after its program and a part of it, in the config, which it returns. Field managers are
// named by the program, so that it must not be the name of the process, which may run several.
func AddUserAgent(config *rest.Config, program, part string) *rest.Config {
	_, version, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
	config.UserAgent = program + "/" + version + "/" + part
	return config
}
