#!/bin/sh
# Makes generated/definitions: the schemas of the API's types, out of the Go sources of k8s.io/api and its kin, in the
# versions that go.mod names. Run by `go generate`.
set -eu
cd "$(dirname "$0")"
trap 'rm -rf _pack/definitions' EXIT
groups="admission/v1 admissionregistration/v1 admissionregistration/v1beta1 admissionregistration/v1alpha1
  apiserverinternal/v1alpha1 apps/v1 authentication/v1 authorization/v1 autoscaling/v1 autoscaling/v2 batch/v1
  certificates/v1 certificates/v1beta1 certificates/v1alpha1 coordination/v1 coordination/v1beta1 coordination/v1alpha2
  core/v1 discovery/v1 events/v1 flowcontrol/v1 networking/v1 networking/v1beta1 node/v1 policy/v1 rbac/v1
  resource/v1 resource/v1beta2 resource/v1beta1 resource/v1alpha3 scheduling/v1 storage/v1 storage/v1beta1
  storagemigration/v1beta1"
packages="k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime
  k8s.io/apimachinery/pkg/version k8s.io/apimachinery/pkg/util/intstr
  k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1 k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
for g in $groups; do packages="$packages k8s.io/api/$g"; done
version=$(go list -m -f '{{.Version}}' k8s.io/kube-openapi)
mkdir -p _pack/definitions
# shellcheck disable=SC2086
go run "k8s.io/kube-openapi/cmd/openapi-gen@$version" --output-dir _pack/definitions \
  --output-pkg quintet.dev/quintet/components/apiserver/openapi/_pack/definitions --output-file definitions.go \
  --go-header-file /dev/null --report-filename /dev/null $packages
go run ./_pack generated/definitions
