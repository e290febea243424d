// Package api holds the cases that test the API server: what any client may count on when it reads and writes objects.
package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

// References into the documentation that the cases check.
const (
	concepts   = "https://kubernetes.io/docs/reference/using-api/api-concepts/"
	apply      = "https://kubernetes.io/docs/reference/using-api/server-side-apply/"
	finalizers = "https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/"
	selectors  = "https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors"
	fieldSel   = "https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/"
	convention = "https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md"
)

// Cases returns the cases of the API server.
func Cases() []suite.Case {
	all := []suite.Case{
		{ID: "api/crud", Run: crud, Reference: concepts + "#api-verbs",
			Requirement: "An object that was created MUST be readable, listable, replaceable and deletable, and gone after " +
				"its deletion."},
		{ID: "api/conflict", Run: conflict, Reference: concepts + "#resource-versions",
			Requirement: "An update that carries an outdated resourceVersion MUST be refused with a Conflict and change " +
				"nothing."},
		{ID: "api/exists", Run: exists, Reference: concepts + "#api-verbs",
			Requirement: "Creating an object whose name is taken MUST fail with AlreadyExists."},
		{ID: "api/generate-name", Run: generateName, Reference: concepts + "#generated-values",
			Requirement: "Objects created with generateName MUST get different names with that prefix."},
		{ID: "api/invalid", Run: invalid, Reference: convention + "#http-status-codes",
			Requirement: "An invalid object MUST be refused with status 422, reason Invalid and a cause that names the field."},
		{ID: "api/strict-fields", Run: strictFields, Reference: concepts + "#setting-the-field-validation-level",
			Requirement: "With fieldValidation=Strict an unknown field MUST be refused; with Warn it MUST be told in a " +
				"Warning header."},
		{ID: "api/patch-json", Run: patchJSON, Reference: concepts + "#patch-and-update",
			Requirement: "A JSON patch MUST be applied operation by operation, and a failed test operation MUST change " +
				"nothing."},
		{ID: "api/patch-merge", Run: patchMerge, Reference: concepts + "#patch-and-update",
			Requirement: "A JSON merge patch MUST replace what it names, remove what it sets to null, and replace lists whole."},
		{ID: "api/patch-strategic", Run: patchStrategic, Reference: concepts + "#strategic-merge-patch",
			Requirement: "A strategic merge patch MUST merge lists by their merge key."},
		{ID: "api/apply", Run: applyCreatesAndMerges, Reference: apply,
			Requirement: "Server-side apply MUST create what is missing, own what it sets, and remove what its manager no " +
				"longer sets."},
		{ID: "api/apply-conflict", Run: applyConflict, Reference: apply + "#conflicts",
			Requirement: "Applying another manager's field with a different value MUST be a Conflict that names that manager, " +
				"unless forced."},
		{ID: "api/dry-run", Run: dryRun, Reference: concepts + "#dry-run",
			Requirement: "A request with dryRun=All MUST answer as the real one would and persist nothing."},
		{ID: "api/label-selector", Run: labelSelector, Reference: selectors,
			Requirement: "A label selector MUST pick exactly the objects whose labels it matches, set-based operators " +
				"included."},
		{ID: "api/field-selector", Run: fieldSelector, Reference: fieldSel,
			Requirement: "A field selector MUST pick by the fields it names, and one that names an unsupported field MUST be " +
				"refused."},
		{ID: "api/pagination", Run: pagination, Reference: concepts + "#retrieving-large-results-sets-in-chunks",
			Requirement: "A list read in chunks MUST show every object of one moment exactly once, whatever is written " +
				"between the chunks."},
		{ID: "api/list-exact", Run: listExact, Reference: concepts + "#resourceversion-in-list",
			Requirement: "A list with resourceVersionMatch=Exact MUST show the objects as they were at that version."},
		{ID: "api/watch-resume", Run: watchResume, Reference: concepts + "#efficient-detection-of-changes",
			Requirement: "A watch from the version of a list MUST deliver every later change once and in order, also after it " +
				"is cut and resumed."},
		{ID: "api/watch-selector", Run: watchSelector, Reference: concepts + "#efficient-detection-of-changes",
			Requirement: "A watch with a selector MUST show an object that comes to match as ADDED and one that ceases to " +
				"match as DELETED."},
		{ID: "api/watch-list", Run: watchList, Reference: concepts + "#streaming-lists",
			Requirement: "A watch with sendInitialEvents MUST deliver the present objects, then a bookmark that marks their " +
				"end, then changes."},
		{ID: "api/watch-expired", Run: watchTooOld, Reference: concepts + "#410-gone-responses",
			Requirement: "A watch from the first version of all MUST either deliver all that came since or end with 410 Gone."},
		{ID: "api/finalizer", Run: finalizer, Reference: finalizers,
			Requirement: "An object with a finalizer MUST stay, marked for deletion, until the finalizer is removed, and then " +
				"go."},
		{ID: "api/delete-preconditions", Run: deletePreconditions, Reference: concepts,
			Requirement: "A delete whose precondition (uid, resourceVersion) does not hold MUST be refused with a Conflict."},
		{ID: "api/delete-collection", Run: deleteCollection, Reference: concepts + "#api-verbs",
			Requirement: "A deletecollection MUST delete the objects that its selector matches and no others."},
		{ID: "api/status-subresource", Run: statusSubresource, Reference: convention + "#spec-and-status",
			Requirement: "A write to the main resource MUST NOT change status, and a write to /status MUST NOT change spec."},
		{ID: "api/generation", Run: generation, Reference: convention + "#metadata",
			Requirement: "metadata.generation MUST rise when the spec changes and stay when only metadata does."},
		{ID: "api/scale", Run: scale,
			Reference:   "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/deployment-v1/",
			Requirement: "The scale subresource MUST show and set the replicas of its object."},
		{ID: "api/protobuf", Run: protobufWire, Reference: concepts + "#protobuf-encoding",
			Needs:       []suite.Feature{suite.ProtobufWire},
			Requirement: "An object written as protobuf MUST read back the same as JSON, and the other way round."},
		{ID: "api/table", Run: table, Reference: concepts + "#receiving-resources-as-tables",
			Needs:       []suite.Feature{suite.TableOutput},
			Requirement: "A client that accepts a Table MUST get column definitions and one row per object."},
		{ID: "api/discovery", Run: discovery, Reference: concepts + "#api-discovery",
			Requirement: "Aggregated and plain discovery MUST name the same resources with the same verbs."},
		{ID: "api/openapi", Run: openAPI,
			Reference: "https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3",
			Requirement: "The OpenAPI v3 documents MUST describe every built-in workload kind with its group, version and " +
				"kind."},
		{ID: "api/versions", Run: twoVersions,
			Reference:   "https://kubernetes.io/docs/concepts/overview/kubernetes-api/#api-groups-and-versioning",
			Requirement: "An object written in one served version MUST be readable in every other, with nothing lost."},
		{ID: "api/access-review", Run: accessReview,
			Reference:   "https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access",
			Requirement: "A SubjectAccessReview MUST follow role bindings as soon as they are written and removed."},
		{ID: "api/token", Run: token,
			Reference: "https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/",
			Requirement: "A requested service-account token MUST authenticate as that account, and no longer once the account " +
				"is deleted."},
	}
	for i := range all {
		all[i].Component, all[i].Since = suite.APIServer, "0.1"
	}
	return all
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Data:       map[string]string{"key": "value"},
	}
}
