package aggregation

// priority is where a built-in group version stands among the others: what its APIService says.
type priority struct{ group, version int32 }

// builtIn are upstream's numbers. Clients that look for a short name, or for a kind without its group, find it where
// the number is highest. Gaps let others get in between.
var builtIn = map[string]priority{
	"v1.":                                   {18000, 1},
	"v1.apps":                               {17800, 15},
	"v1.events.k8s.io":                      {17750, 15},
	"v1.authentication.k8s.io":              {17700, 15},
	"v1.authorization.k8s.io":               {17600, 15},
	"v1.autoscaling":                        {17500, 15},
	"v2.autoscaling":                        {17500, 30},
	"v1.batch":                              {17400, 15},
	"v1.certificates.k8s.io":                {17300, 15},
	"v1beta1.certificates.k8s.io":           {17300, 9},
	"v1alpha1.certificates.k8s.io":          {17300, 1},
	"v1.networking.k8s.io":                  {17200, 15},
	"v1beta1.networking.k8s.io":             {17200, 9},
	"v1.policy":                             {17100, 15},
	"v1.rbac.authorization.k8s.io":          {17000, 15},
	"v1.storage.k8s.io":                     {16800, 15},
	"v1beta1.storage.k8s.io":                {16800, 9},
	"v1.admissionregistration.k8s.io":       {16700, 15},
	"v1beta1.admissionregistration.k8s.io":  {16700, 12},
	"v1alpha1.admissionregistration.k8s.io": {16700, 9},
	"v1.apiextensions.k8s.io":               {16700, 15},
	"v1.scheduling.k8s.io":                  {16600, 15},
	"v1.coordination.k8s.io":                {16500, 15},
	"v1beta1.coordination.k8s.io":           {16500, 13},
	"v1alpha2.coordination.k8s.io":          {16500, 12},
	"v1.node.k8s.io":                        {16300, 15},
	"v1.discovery.k8s.io":                   {16200, 15},
	"v1.resource.k8s.io":                    {16200, 21},
	"v1beta2.resource.k8s.io":               {16200, 15},
	"v1beta1.resource.k8s.io":               {16200, 9},
	"v1alpha3.resource.k8s.io":              {16200, 1},
	"v1.flowcontrol.apiserver.k8s.io":       {16100, 21},

	"v1alpha1.internal.apiserver.k8s.io": {16000, 9},

	"v1beta1.storagemigration.k8s.io": {15800, 9},
}

// custom is that of all custom resources.
var custom = priority{1000, 100}
