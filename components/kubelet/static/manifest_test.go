package static

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const web = `apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - {name: c, image: "image:1"}
`

func parse(t *testing.T, node, path, manifest string) *v1.Pod {
	t.Helper()
	pod, err := NewParser(node).File([]byte(manifest), path)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestFile(t *testing.T) {
	pod := parse(t, "Node1", "/m/web.yaml", web)
	if pod.Name != "web-node1" || pod.Namespace != "default" || pod.Spec.NodeName != "Node1" || len(pod.UID) != 32 {
		t.Errorf("metadata %+v, node %q", pod.ObjectMeta, pod.Spec.NodeName)
	}
	if a := pod.Annotations; a["kubernetes.io/config.hash"] != string(pod.UID) ||
		a["kubernetes.io/config.source"] != "file" || !Is(pod) || IsMirror(pod) {
		t.Errorf("annotations %v", a)
	}
	c := pod.Spec.Containers[0]
	if pod.Spec.RestartPolicy != v1.RestartPolicyAlways || *pod.Spec.TerminationGracePeriodSeconds != 30 ||
		pod.Spec.DNSPolicy != v1.DNSClusterFirst || c.ImagePullPolicy != v1.PullIfNotPresent ||
		c.TerminationMessagePath != "/dev/termination-log" || pod.Status.Phase != v1.PodPending {
		t.Errorf("defaults %+v", pod.Spec)
	}
	if len(pod.Spec.Tolerations) != 1 || pod.Spec.Tolerations[0] != (v1.Toleration{
		Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}) {
		t.Errorf("tolerations %+v", pod.Spec.Tolerations)
	}
}

func TestHash(t *testing.T) {
	asJSON := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[` +
		`{"name":"c","image":"image:1"}]}}`
	first := parse(t, "n", "/m/web", web)
	for name, test := range map[string]struct {
		node, path, manifest string
		same                 bool
	}{
		"again":         {"n", "/m/web", web, true},
		"as JSON":       {"n", "/m/web", asJSON, true},
		"other node":    {"n2", "/m/web", web, false},
		"other file":    {"n", "/m/web2", web, false},
		"other content": {"n", "/m/web", strings.Replace(web, "image:1", "image:2", 1), false},
	} {
		if other := parse(t, test.node, test.path, test.manifest); (other.UID == first.UID) != test.same {
			t.Errorf("%s: %s and %s", name, first.UID, other.UID)
		}
	}
	given := parse(t, "n", "/m/web", strings.Replace(web, "name: web", "name: web\n  uid: u1", 1))
	if given.UID != "u1" || given.Annotations["kubernetes.io/config.hash"] != "u1" {
		t.Errorf("a UID that was given: %+v", given.ObjectMeta)
	}
}

func TestFileIsRefused(t *testing.T) {
	with := func(spec string) string { return web + spec }
	container := func(field string) string {
		return strings.Replace(web, `image: "image:1"`, `image: "image:1", `+field, 1)
	}
	volume := func(source string) string { return with("  volumes: [{name: v, " + source + "}]\n") }
	noImage, mounts := strings.Replace(web, "image:1", "", 1), container("volumeMounts: [{name: x, mountPath: /x}]")
	ephemeral := with("  ephemeralContainers: [{name: e, image: i}]\n")
	const not = "static pods may not reference "
	for manifest, want := range map[string]string{
		"{":                                  "couldn't parse as pod",
		"apiVersion: v1\nkind: Service\n":    "couldn't parse as pod(invalid pod",
		strings.Replace(web, "web", `""`, 1): "invalid pod: name is needed for the pod",
		noImage:                              "invalid pod: [spec.containers[0].image: Required value]",
		strings.Replace(web, "name: c", "name: C", 1): `spec.containers[0].name: Invalid value: "C"`,
		mounts:                               `spec.containers[0].volumeMounts[0].name: Not found: "x"`,
		with("  restartPolicy: Sometimes\n"): "spec.restartPolicy: Unsupported value",
		ephemeral:                            "spec.ephemeralContainers: Forbidden: cannot be set on create",
		with("  serviceAccountName: a\n"):    not + "serviceaccounts",
		with("  imagePullSecrets: [{name: a}]\n"):                              not + "secrets",
		with("  resourceClaims: [{name: a, resourceClaimName: b}]\n"):          not + "resourceclaims",
		container("envFrom: [{configMapRef: {name: a}}]"):                      not + "configmaps",
		container("env: [{name: A, valueFrom: {secretKeyRef: {name: a}}}]"):    not + "secrets",
		container("env: [{name: A, valueFrom: {configMapKeyRef: {name: a}}}]"): not + "configmaps",
		volume("configMap: {name: a}"):                                         not + "configmaps",
		volume("secret: {secretName: a}"):                                      not + "secrets",
		volume("persistentVolumeClaim: {claimName: a}"):                        not + "persistentvolumeclaims",
		volume("ephemeral: {}"):                                                not + "persistentvolumeclaims",
		volume("csi: {driver: d, nodePublishSecretRef: {name: a}}"):            not + "secrets",
		volume("projected: {sources: [{serviceAccountToken: {path: p}}]}"):     not + "serviceaccounts",
		volume("projected: {sources: [{clusterTrustBundle: {path: p}}]}"):      not + "clustertrustbundles",
	} {
		_, err := NewParser("n").File([]byte(manifest), "/m/web")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", manifest, err, want)
		}
	}
	for _, source := range []string{"hostPath: {path: /x}", "emptyDir: {}", "downwardAPI: {}",
		"projected: {sources: [{downwardAPI: {}}]}"} {
		parse(t, "n", "/m/web", volume(source))
	}
}

func TestPage(t *testing.T) {
	list := `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[` +
		`{"name":"c","image":"i"}]}},{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`
	for manifest, names := range map[string][]string{web: {"web-n"}, list: {"a-n", "b-n"}} {
		pods, err := NewParser("n").Page([]byte(manifest), "http://x")
		if err != nil || len(pods) != len(names) {
			t.Fatalf("%v, %v", pods, err)
		}
		for i, pod := range pods {
			if pod.Name != names[i] || pod.Annotations["kubernetes.io/config.source"] != "http" ||
				len(pod.Spec.Tolerations) > 0 {
				t.Errorf("pod %+v", pod)
			}
		}
	}
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{
		"a": v1.PullAlways, "a:latest": v1.PullAlways, "r:5000/a": v1.PullAlways, "r:5000/a:1": v1.PullIfNotPresent,
		"a@sha256:00": v1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: %s", image, got)
		}
	}
}
