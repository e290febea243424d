package static

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"
)

// TestDefaults: what a manifest leaves out is what the API server would set, and what it says stays.
func TestDefaults(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n"
	const container = "  containers: [{name: c, image: i, %}]\n"
	for name, test := range map[string]struct{ spec, given, want string }{
		"ports": {container, "ports: [{containerPort: 80}]", "ports: [{containerPort: 80, protocol: TCP}]"},
		"other protocol": {container,
			"ports: [{containerPort: 53, protocol: UDP}]", "ports: [{containerPort: 53, protocol: UDP}]"},
		"host network": {"  hostNetwork: true\n" + container, "ports: [{containerPort: 80}]",
			"ports: [{containerPort: 80, hostPort: 80, protocol: TCP}]"},
		"field references": {container, "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
			"env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]"},
		"requests": {container, "resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m}}",
			"resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}"},
		"probes": {container, "livenessProbe: {httpGet: {port: 80}}, readinessProbe: {grpc: {port: 1}}, " +
			"startupProbe: {tcpSocket: {port: 1}, timeoutSeconds: 5, periodSeconds: 6, successThreshold: 1, " +
			"failureThreshold: 8}",
			"livenessProbe: {httpGet: {port: 80, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, " +
				"successThreshold: 1, failureThreshold: 3}, readinessProbe: {grpc: {port: 1, service: ''}, timeoutSeconds: 1, " +
				"periodSeconds: 10, successThreshold: 1, failureThreshold: 3}, startupProbe: {tcpSocket: {port: 1}, " +
				"timeoutSeconds: 5, periodSeconds: 6, successThreshold: 1, failureThreshold: 8}"},
		"hooks": {container, "lifecycle: {postStart: {httpGet: {port: 80}}, preStop: {httpGet: {port: 81, path: /x, " +
			"scheme: HTTPS}}}", "lifecycle: {postStart: {httpGet: {port: 80, path: /, scheme: HTTP}}, " +
			"preStop: {httpGet: {port: 81, path: /x, scheme: HTTPS}}}"},
		"messages": {container, "terminationMessagePath: /m, terminationMessagePolicy: FallbackToLogsOnError",
			"terminationMessagePath: /m, terminationMessagePolicy: FallbackToLogsOnError"},
		"empty volume":   {volumeSpec, "", "emptyDir: {}"},
		"host path":      {volumeSpec, "hostPath: {path: /x}", "hostPath: {path: /x, type: ''}"},
		"host path type": {volumeSpec, "hostPath: {path: /x, type: File}", "hostPath: {path: /x, type: File}"},
		"downward": {volumeSpec, "downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}",
			"downwardAPI: {defaultMode: 420, items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}]}"},
		"projected": {volumeSpec, "projected: {defaultMode: 256, sources: [{downwardAPI: {items: [{path: p, " +
			"fieldRef: {fieldPath: metadata.name}}]}}]}", "projected: {defaultMode: 256, sources: " +
			"[{downwardAPI: {items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}]}}]}"},
		"image": {volumeSpec, "image: {reference: 'r/i:1'}",
			"image: {reference: 'r/i:1', pullPolicy: IfNotPresent}"},
		"latest image": {volumeSpec, "image: {reference: r/i}", "image: {reference: r/i, pullPolicy: Always}"},
	} {
		got := parse(t, "n", "/m", pod+strings.Replace(test.spec, "%", test.given, 1))
		var wanted v1.Pod
		if err := yaml.UnmarshalStrict([]byte(pod+strings.Replace(test.spec, "%", test.want, 1)), &wanted); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := &wanted.Spec.Containers[0]
		if name != "messages" {
			c.TerminationMessagePath, c.TerminationMessagePolicy = "/dev/termination-log", v1.TerminationMessageReadFile
		}
		c.ImagePullPolicy = v1.PullAlways
		if !equality.Semantic.DeepEqual(got.Spec.Containers, wanted.Spec.Containers) ||
			!equality.Semantic.DeepEqual(got.Spec.Volumes, wanted.Spec.Volumes) {
			t.Errorf("%s:\ngot  %+v\n     %+v\nwant %+v\n     %+v", name, got.Spec.Containers, got.Spec.Volumes,
				wanted.Spec.Containers, wanted.Spec.Volumes)
		}
	}
}

const volumeSpec = "  containers: [{name: c, image: i}]\n  volumes: [{name: v, %}]\n"

// TestSpecKeepsItsOwn: defaults of the pod as a whole don't replace what is said.
func TestSpecKeepsItsOwn(t *testing.T) {
	pod := parse(t, "n", "/m", web+"  restartPolicy: Never\n  dnsPolicy: Default\n  schedulerName: mine\n"+
		"  terminationGracePeriodSeconds: 0\n  enableServiceLinks: false\n"+
		"  tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 5}]\n")
	s := pod.Spec
	if s.RestartPolicy != v1.RestartPolicyNever || s.DNSPolicy != v1.DNSDefault || s.SchedulerName != "mine" ||
		*s.TerminationGracePeriodSeconds != 0 || *s.EnableServiceLinks {
		t.Errorf("%+v", s)
	}
	if len(s.Tolerations) != 1 || s.Tolerations[0].TolerationSeconds != nil {
		t.Errorf("tolerations %+v: a pod of a file tolerates every taint for good", s.Tolerations)
	}
	if s := parse(t, "n", "/m", web).Spec; s.SecurityContext == nil || !*s.EnableServiceLinks ||
		s.SchedulerName != v1.DefaultSchedulerName {
		t.Errorf("%+v", s)
	}
}
