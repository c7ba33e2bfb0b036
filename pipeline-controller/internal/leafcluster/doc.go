/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package leafcluster reads the targets of Pipelines and their sources, in the management cluster and in leaf clusters.
// It runs a watch exactly as long as some Pipeline needs it.
//
// Each reconcile declares all targets of its Pipeline with Want. Targets that no Pipeline wants are no longer watched.
// Read returns the state of a target and never waits for a connection or a watch: "the cluster is being connected" and
// "the cluster is unreachable" are states too. Clusters is a source of the controller of Pipelines, so a change of a
// target queues its Pipelines.
//
// There are three kinds of components, each with one goroutine:
//
//   - A cluster is an object that represents one: a GitopsCluster, a Cluster of Cluster API, a Secret or a ConfigMap.
//     It resolves the kubeconfig, or the identity that replaces it, and repeats that at intervals.
//   - A connection belongs to the content of a kubeconfig. It probes the API server at intervals. Its watches run while
//     the server responds. If the server has not responded for too long, the watches stop and it reconnects. Objects
//     with the same kubeconfig share a connection. Another kubeconfig is another connection, in which the states of the
//     previous one do not count.
//   - A watch follows the objects of one kind in one namespace. It needs the verbs get, list and watch on the kind in
//     that namespace. In the cluster of the controller, whose roles Sluice provides, it watches all namespaces, unless
//     the controller is confined to one or the Pipeline has an expression for revisions.
//
// Clusters, connections, and each cluster, connection and watch have their own locks. Each lock guards the fields whose
// comments say so, and is never held while waiting. Locks are acquired in the order Clusters, cluster, connections,
// connection, watch. Calls in the opposite direction are made without a lock, or acquire none.
//
// Without contact, the last state of a target remains valid for the time of grace. After that it is unknown, which
// blocks promotions to later environments and never causes any. If nothing was known before, a definite error counts
// immediately, such as rejected credentials or a missing kind.
//
// Only the application.State of an object is kept. Responses of leaf clusters are limited in size, and none of their
// text is used in messages, except the messages of conditions.
package leafcluster
