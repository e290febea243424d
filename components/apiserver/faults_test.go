package apiserver_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

// send makes a request with a JSON body and gives the answer, whatever it is.
func send(t *testing.T, client rest.Interface, verb, path, body string, into any) {
	t.Helper()
	raw, err := client.Verb(verb).AbsPath(path).SetHeader("Content-Type",
		"application/json").Body([]byte(body)).DoRaw(t.Context())
	if len(raw) == 0 {
		t.Fatalf("%s %s: %v", verb, path, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s %s: %v in %s", verb, path, err, raw)
	}
}

// TestFaultsOfMetadataAmongOthers: kinds tell once more what is wrong with the metadata of a changed object, each in a
// place of its own among the faults of the rest, and clients see that order.
func TestFaultsOfMetadataAmongOthers(t *testing.T) {
	client := start(t).client(t).CoreV1().RESTClient()
	const labels = `,"labels":{"ok":"-a"}`
	for name, c := range map[string]struct{ path, kind, before, after, want string }{
		"the object, then the change": {"/apis/rbac.authorization.k8s.io/v1/clusterroles",
			`"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole"`,
			``, `,"rules":[{"verbs":[]}]`, "labels labels labels verbs apiGroups resources labels"},
		"the change first": {"/apis/storage.k8s.io/v1/volumeattributesclasses",
			`"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttributesClass"`,
			`,"driverName":"d.example.com","parameters":{"a":"b"}`,
			`,"driverName":"d.example.com","parameters":{"a":"c"}`,
			"labels labels labels parameters labels"},
		"the object twice": {"/api/v1/persistentvolumes", `"apiVersion":"v1","kind":"PersistentVolume"`,
			`,"spec":{"capacity":{"storage":"1"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}`,
			`,"spec":{"capacity":{"storage":"1"},"accessModes":[],"hostPath":{"path":"/x"}}`,
			"labels labels labels accessModes labels accessModes"},
		"both, in that order": {"/api/v1/namespaces", `"apiVersion":"v1","kind":"Namespace"`, ``, ``,
			"labels labels labels labels"},
	} {
		t.Run(name, func(t *testing.T) {
			object := func(labels, rest string) string {
				return "{" + c.kind + `,"metadata":{"name":"x"` + labels + "}" + rest + "}"
			}
			send(t, client, http.MethodPost, c.path, object("", c.before), &metav1.PartialObjectMetadata{})
			var status metav1.Status
			send(t, client, http.MethodPut, c.path+"/x", object(labels, c.after), &status)
			if status.Reason != metav1.StatusReasonInvalid || status.Details == nil {
				t.Fatalf("answered %+v", status)
			}
			var got []string
			for _, cause := range status.Details.Causes {
				got = append(got, cause.Field[strings.LastIndex(cause.Field, ".")+1:])
			}
			if !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("told of %v, want %s", got, c.want)
			}
		})
	}
}

// TestFaultsOfNewObjects: what is told of objects that can't be created, and in what order.
func TestFaultsOfNewObjects(t *testing.T) {
	client := start(t).client(t).CoreV1().RESTClient()
	for name, c := range map[string]struct{ path, body, want string }{
		"the right to a device before the name": {"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
			`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"A"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","adminAccess":true}}]}}}`,
			"adminAccess metadata.name"},
		"no name is made up for an address": {"/apis/networking.k8s.io/v1/ipaddresses",
			`{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"generateName":"a"},"spec":{"parentRef":{"resource":"services","name":"s"}}}`,
			`metadata.generateName metadata.name: Invalid value: "a":`},
		"where a volume is before what it is": {"/api/v1/persistentvolumes",
			`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"x"},"spec":{"capacity":{"storage":"1"},"accessModes":["ReadWriteOnce"],"nodeAffinity":{},"csi":{"driver":"../x","volumeHandle":"h"}}}`,
			"spec.nodeAffinity.required spec.csi.driver"},
		"topology before class": {"/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
			`{"apiVersion":"storage.k8s.io/v1","kind":"CSIStorageCapacity","metadata":{"name":"x"},"nodeTopology":{"matchLabels":{"a":"-"}}}`,
			"nodeTopology storageClassName"},
		"tokens before life cycles": {"/apis/storage.k8s.io/v1/csidrivers",
			`{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"x"},"spec":{"volumeLifecycleModes":["X"],"tokenRequests":[{"audience":"a","expirationSeconds":1}]}}`,
			"spec.tokenRequests spec.volumeLifecycleModes"},
		"finalizers of an event before its series": {"/apis/events.k8s.io/v1/namespaces/default/events",
			`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"x","finalizers":["bad"]},"eventTime":"2020-01-01T00:00:00.000000Z","series":{"count":1,"lastObservedTime":"2020-01-01T00:00:00.000000Z"},"type":"Normal","action":"a","reason":"r","reportingController":"c","reportingInstance":"i"}`,
			"metadata.finalizers[0] series.count"},
		"a restart policy before a name that is taken": {"/api/v1/namespaces/default/podtemplates",
			`{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"x"},"template":{"spec":{"initContainers":[{"name":"c","image":"i","restartPolicy":"X"}],"containers":[{"name":"c","image":"i"}]}}}`,
			"initContainers[0].restartPolicy initContainers[0].name"},
		"what is around an image, of ephemeral containers alone": {"/api/v1/namespaces/default/podtemplates",
			`{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"x"},"template":{"spec":{"containers":[{"name":"c","image":" i"}],"ephemeralContainers":[{"name":"e","image":" i","volumeMounts":[{"name":"z","mountPath":"/a"}]}]}}}`,
			"invalid: [template.spec.ephemeralContainers[0].volumeMounts[0] ephemeralContainers[0].image"},
		"a strategy of no type, with what it leaves out": {"/apis/apps/v1/namespaces/default/deployments",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"strategy":{"type":"X","rollingUpdate":{"maxSurge":1}}}}`,
			`spec.strategy {"Type":"X","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":1}}`},
		"a job has the labels of its template, though there were none": {"/apis/batch/v1/namespaces/default/jobs",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a/b"},"spec":{"template":{"metadata":{"labels":{}},"spec":{"restartPolicy":"Never"}}}}`,
			"metadata.name metadata.labels containers"},
	} {
		t.Run(name, func(t *testing.T) {
			var status metav1.Status
			send(t, client, http.MethodPost, c.path, c.body, &status)
			rest := status.Message
			for _, part := range strings.Fields(c.want) {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Fatalf("answered %q, want %s in that order", status.Message, c.want)
				}
				rest = after
			}
		})
	}
}

// TestNewTimesOfManagersAlone: what says of nothing but the managers' times that they are others changes nothing,
// though it leaves out what the server adds.
func TestNewTimesOfManagersAlone(t *testing.T) {
	client := start(t).client(t).CoreV1().RESTClient()
	const path = "/api/v1/namespaces/default/configmaps"
	var made, after metav1.PartialObjectMetadata
	send(t, client, http.MethodPost, path,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"b"}}`, &made)
	mine := made.ManagedFields[0]
	mine.Time = &metav1.Time{Time: made.CreationTimestamp.AddDate(-1, 0, 0)}
	entry, err := json.Marshal(mine)
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, http.MethodPut, path+"/x",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","managedFields":[`+string(
			entry)+`]},"data":{"a":"b"}}`, &after)
	if after.ResourceVersion == "" || after.ResourceVersion != made.ResourceVersion {
		t.Errorf("version %q became %q", made.ResourceVersion, after.ResourceVersion)
	}
}

// TestConditionsOfTemplatesOfJobs: a rule for pods' failures looks for conditions that are true unless it says
// otherwise, also where jobs are only to come of it.
func TestConditionsOfTemplatesOfJobs(t *testing.T) {
	client := start(t).client(t).CoreV1().RESTClient()
	var made batchv1.CronJob
	send(t, client, http.MethodPost, "/apis/batch/v1/namespaces/default/cronjobs",
		`{"apiVersion":"batch/v1","kind":"CronJob",
		"metadata":{"name":"x"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{
			"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget"}]}]},
			"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`, &made)
	policy := made.Spec.JobTemplate.Spec.PodFailurePolicy
	if policy == nil || policy.Rules[0].OnPodConditions[0].Status != corev1.ConditionTrue {
		t.Errorf("made %+v", made)
	}
}

// TestServiceCIDROfTheServer: who says that the server's own addresses are ready has applied that, as upstream's
// controller does.
func TestServiceCIDROfTheServer(t *testing.T) {
	got := tellingServiceCIDR(t, start(t).client(t))
	i := slices.IndexFunc(got.ManagedFields,
		func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" })
	if i < 0 || got.ManagedFields[i].Manager != "kubernetes-service-cidr-controller" ||
		got.ManagedFields[i].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managed by %v", got.ManagedFields)
	}
}
