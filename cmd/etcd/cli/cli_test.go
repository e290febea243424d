package cli

import (
	"os"
	"testing"
)

func TestTold(t *testing.T) {
	defer func(args []string) { os.Args = args }(os.Args)
	for _, test := range []struct {
		name        string
		args        []string
		environment string
		want        bool
	}{
		{"nothing", nil, "", false},
		{"another", []string{"--data-dir=x", "--initial-cluster-state=new"}, "", false},
		{"flag", []string{"--initial-cluster=a=http://a"}, "", true},
		{"flag and value apart", []string{"--data-dir", "x", "--initial-cluster", "a=http://a"}, "", true},
		{"one dash", []string{"-initial-cluster=a=http://a"}, "", true},
		{"environment", nil, "ETCD_INITIAL_CLUSTER", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			os.Args = append([]string{"etcd"}, test.args...)
			if test.environment != "" {
				t.Setenv(test.environment, "a=http://a")
			}
			if got := configured("initial-cluster"); got != test.want {
				t.Errorf("told: %v", got)
			}
		})
	}
}
