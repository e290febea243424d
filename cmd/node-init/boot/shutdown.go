package boot

import (
	"fmt"
	"os"
	"strings"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// shutdownGrace is how long the kubelet may take to end the node's pods, as its configuration file says; 0 where it is
// not to do so.
func shutdownGrace(kubeletArgs []string) (time.Duration, error) {
	file := flagValue(kubeletArgs, "--config")
	if file == "" {
		return 0, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("configuration of the kubelet: %w", err)
	}
	var config kubeletconfig.KubeletConfiguration
	if err := yaml.Unmarshal(data, &config); err != nil {
		return 0, fmt.Errorf("configuration of the kubelet %s: %w", file, err)
	}
	total := config.ShutdownGracePeriod.Duration
	for _, period := range config.ShutdownGracePeriodByPodPriority {
		total += time.Duration(period.ShutdownGracePeriodSeconds) * time.Second
	}
	return total, nil
}

// flagValue finds the last value of a flag that is given as one argument or two.
func flagValue(args []string, flag string) string {
	found := ""
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			found = value
		}
		if arg == flag && i+1 < len(args) {
			found = args[i+1]
		}
	}
	return found
}
