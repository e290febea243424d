// Package node holds the cases that test the kubelet and its runtime: that containers run as their pods say, and that
// what is reported of them is true.
package node

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	gtypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const (
	lifecycle   = "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/"
	initDocs    = "https://kubernetes.io/docs/concepts/workloads/pods/init-containers/"
	sidecarDocs = "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/"
	probeDocs   = "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"
	volumeDocs  = "https://kubernetes.io/docs/concepts/storage/volumes/"
	projected   = "https://kubernetes.io/docs/concepts/storage/projected-volumes/"
	environment = "https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/"
	downward    = "https://kubernetes.io/docs/concepts/workloads/pods/downward-api/"
	logDocs     = "https://kubernetes.io/docs/concepts/cluster-administration/logging/"
	messages    = "https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/"
	security    = "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
	limits      = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
	network     = "https://kubernetes.io/docs/concepts/services-networking/"
)

// Cases returns the cases of the kubelet.
func Cases() []suite.Case {
	all := []suite.Case{
		{ID: "node/completes", Run: completes, Reference: lifecycle + "#pod-phase",
			Requirement: "A pod whose containers all end with code 0 and are not restarted MUST become Succeeded."},
		{ID: "node/fails", Run: fails, Reference: lifecycle + "#pod-phase",
			Requirement: "A pod with a container that ends with another code and is not restarted MUST become Failed and " +
				"report the code."},
		{ID: "node/restarts", Run: restarts, Reference: lifecycle + "#restart-policy",
			Requirement: "A container that fails under restartPolicy OnFailure MUST be started again, counted, and its last " +
				"end kept."},
		{ID: "node/backs-off", Run: backsOff, Reference: lifecycle + "#container-restarts",
			Requirement: "A container that keeps failing MUST be restarted with growing pauses and show CrashLoopBackOff " +
				"meanwhile."},
		{ID: "node/init-containers", Run: initContainers, Reference: initDocs,
			Requirement: "Init containers MUST run one after another, each to its end, before any other container starts."},
		{ID: "node/init-failure", Run: initFailure, Reference: initDocs,
			Requirement: "A pod whose init container fails and is not restarted MUST fail without starting its containers."},
		{ID: "node/sidecar", Run: sidecar, Reference: sidecarDocs,
			Requirement: "A restartable init container MUST start before and run beside the others, and not keep the pod from " +
				"completing."},
		{ID: "node/environment", Run: environmentCase, Reference: environment,
			Requirement: "Variables MUST reach the container: literal, expanded, from config maps and secrets, and from the " +
				"pod's own fields."},
		{ID: "node/volumes", Run: volumes, Reference: volumeDocs,
			Requirement: "emptyDir, configMap, secret and downwardAPI volumes MUST hold what they promise, with their modes, " +
				"and be shared by the containers."},
		{ID: "node/volume-update", Run: volumeUpdate, Reference: volumeDocs + "#configmap",
			Requirement: "A running pod MUST see a changed config map in its volume, whole or not at all."},
		{ID: "node/missing-config", Run: missingConfig, Reference: volumeDocs + "#configmap",
			Requirement: "A pod that needs a missing config map MUST wait, say why, and start once it is there."},
		{ID: "node/service-account-token", Run: serviceAccountToken, Reference: projected + "#serviceaccounttoken",
			Requirement: "A pod MUST find a token for its service account, the root certificate and its namespace where " +
				"containers look for them."},
		{ID: "node/readiness", Run: readiness, Reference: probeDocs,
			Requirement: "A pod MUST be ready only while its readiness probe succeeds, and not be restarted when it does not."},
		{ID: "node/liveness", Run: liveness, Reference: probeDocs,
			Requirement: "A container whose liveness probe fails MUST be restarted."},
		{ID: "node/startup", Run: startup, Reference: probeDocs,
			Requirement: "Liveness and readiness MUST wait until the startup probe has succeeded."},
		{ID: "node/probe-kinds", Run: probeKinds, Reference: probeDocs,
			Requirement: "Probes by HTTP, TCP, gRPC and command MUST all be able to make a pod ready."},
		{ID: "node/logs", Run: logs, Reference: logDocs,
			Requirement: "A container's output MUST be readable as its log, in part (tail, limit), followed, and of its " +
				"previous run."},
		{ID: "node/exec", Run: exec,
			Reference:   "https://kubernetes.io/docs/tasks/debug/debug-application/get-shell-running-container/",
			Requirement: "A command MUST run in a running container with its input, output and exit code carried over."},
		{ID: "node/graceful-stop", Run: gracefulStop, Reference: lifecycle + "#pod-termination",
			Requirement: "A deleted pod's containers MUST get SIGTERM and up to the grace period to end, and the pod stay " +
				"visible until they have."},
		{ID: "node/forced-stop", Run: forcedStop, Reference: lifecycle + "#pod-termination",
			Requirement: "A container that ignores SIGTERM MUST be killed when the grace period is over."},
		{ID: "node/pre-stop", Run: preStop,
			Reference:   "https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/",
			Requirement: "The postStart hook MUST run after a container's start and the preStop hook before SIGTERM."},
		{ID: "node/deadline", Run: deadline,
			Reference:   "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#lifecycle",
			Requirement: "A pod that outlives activeDeadlineSeconds MUST be stopped and Failed with reason DeadlineExceeded."},
		{ID: "node/termination-message", Run: terminationMessage, Reference: messages,
			Requirement: "A termination message MUST be reported, from its file or, when asked for, from the end of the log " +
				"of a failure."},
		{ID: "node/image-missing", Run: imageMissing, Reference: "https://kubernetes.io/docs/concepts/containers/images/",
			Requirement: "A container whose image can't be had MUST wait with ErrImagePull or ImagePullBackOff, and with " +
				"ErrImageNeverPull when it may not be pulled."},
		{ID: "node/security-context", Run: securityContext, Reference: security,
			Requirement: "A container MUST run as the user and groups, and with the read-only root file system, that its " +
				"security context asks for."},
		{ID: "node/memory-limit", Run: memoryLimit, Reference: limits,
			Requirement: "A container that uses more memory than its limit MUST be killed and reported as OOMKilled."},
		{ID: "node/resize", Run: resize,
			Reference: "https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/",
			Requirement: "A resize of a running container MUST reach its control group, with a restart only where its policy " +
				"asks for one, and be reported."},
		{ID: "node/same-network", Run: sameNetwork,
			Reference: "https://kubernetes.io/docs/concepts/workloads/pods/#pod-networking",
			Requirement: "The containers of a pod MUST share one network: they reach each other on localhost and have one " +
				"address."},
		{ID: "node/pod-network", Run: podNetwork, Reference: network, Needs: []suite.Feature{suite.PodNetwork,
			suite.TwoNodes},
			Requirement: "Pods on different nodes MUST reach each other by address, and see each other's own address."},
		{ID: "node/proxy", Run: proxied,
			Reference: "https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/",
			Needs:     []suite.Feature{suite.PodNetwork, suite.HasControllers},
			Requirement: "The API server MUST reach pods on every node, and hand on requests to them and to the endpoints of " +
				"a Service."},
		{ID: "node/heartbeat", Run: heartbeat,
			Reference:   "https://kubernetes.io/docs/concepts/architecture/nodes/#node-heartbeats",
			Requirement: "Every ready node MUST renew its Lease within its duration."},
	}
	for i := range all {
		all[i].Since = "0.1"
	}
	all = slices.Concat(all, dnsCases(), hostPortCases(), storageCases(), deviceCases(), claimCases(),
		lifecycleCases(), probeTimingCases(), hardeningCases(), mountCases(), boundCases(), streamCases(),
		kubeletCases())
	for i := range all {
		all[i].Component = suite.Kubelet
		all[i].Needs = append(all[i].Needs, suite.HasScheduler, suite.RunsPods)
	}
	return all
}

func phase(p corev1.PodPhase) gtypes.GomegaMatcher { return HaveField("Status.Phase", p) }

func running(ctx context.Context, t *suite.T, name string) *corev1.Pod {
	return suite.WaitFor(ctx, t, "pod "+name+" running and ready", t.GetPod(name), Satisfy(func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && condition(p, corev1.PodReady) == corev1.ConditionTrue
	}))
}

// ended waits for a pod's end. One that ended otherwise stays so: the case fails at once, with its status.
func ended(ctx context.Context, t *suite.T, name string, p corev1.PodPhase) *corev1.Pod {
	get := t.GetPod(name)
	return suite.WaitFor(ctx, t, "pod "+name+" "+string(p), func(ctx context.Context) (*corev1.Pod, error) {
		pod, err := get(ctx)
		if err == nil && pod.Status.Phase != p &&
			(pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded) {
			return nil, StopTrying("it is "+string(pod.Status.Phase)).Attach("Status", pod.Status)
		}
		return pod, err
	}, phase(p))
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func container(p *corev1.Pod, name string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return corev1.ContainerStatus{}
}

// log returns the whole log of a container.
func log(ctx context.Context, t *suite.T, pod string, options *corev1.PodLogOptions) string {
	raw, err := t.Client.CoreV1().Pods(t.Namespace).GetLogs(pod, options).DoRaw(ctx)
	t.Must(err, "read the log of %s", pod)
	return string(raw)
}

// outputOf runs a pod to its end and returns the lines of its log.
func outputOf(ctx context.Context, t *suite.T, pod *corev1.Pod) []string {
	t.CreatePod(ctx, pod)
	ended(ctx, t, pod.Name, corev1.PodSucceeded)
	return strings.Split(strings.TrimSpace(log(ctx, t, pod.Name, &corev1.PodLogOptions{Container: "main"})), "\n")
}

// execute runs a command in a pod's main container.
func execute(ctx context.Context, t *suite.T, pod, stdin string, command ...string) (stdout, stderr string, err error) {
	return t.Exec(ctx, pod, stdin, command...)
}

// server returns a pod that serves HTTP on 8080 until it is asked to end.
func server(t *suite.T, name string, args ...string) *corev1.Pod {
	p := t.Pod(name, append([]string{"serve", "--http=:8080"}, args...)...)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return p
}

func shared(p *corev1.Pod, path string) {
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	for i := range p.Spec.InitContainers {
		p.Spec.InitContainers[i].VolumeMounts = append(p.Spec.InitContainers[i].VolumeMounts,
			corev1.VolumeMount{Name: "shared", MountPath: path})
	}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = append(p.Spec.Containers[i].VolumeMounts,
			corev1.VolumeMount{Name: "shared", MountPath: path})
	}
}

func grace(p *corev1.Pod, seconds int64) { p.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
