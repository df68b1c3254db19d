"""The fields of XLA's own messages that this package reads: a graph, a compiled program and its buffer assignment.

XLA ships no Python package for them. Numbers as in xla/service/hlo.proto and xla/xla_data.proto; what isn't declared passes through
untouched, so a message that is parsed, changed and written again loses nothing.
"""

from __future__ import annotations

import functools
from typing import Any

_MANY = True
# message: {field: (number, type, repeated)}; a type in capitals is another message of this table
_FIELDS: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Hlo": {
        "module": (1, "Module", False),
        "buffer_assignment": (3, "Assignment", False),
    },
    "Module": {
        "name": (1, "string", False),
        "computations": (3, "Computation", _MANY),
        "host_program_shape": (4, "ProgramShape", False),
        "id": (5, "int64", False),
        "entry_computation_id": (6, "int64", False),
        "input_output_alias": (8, "Aliases", False),
        "stack_frame_index": (17, "FrameIndex", False),
        "buffer_donor": (18, "Donors", False),
    },
    "ProgramShape": {
        "parameters": (1, "Shape", _MANY),
        "result": (2, "Shape", False),
    },
    "Aliases": {
        "entries": (1, "Alias", _MANY),
    },
    "Alias": {
        "output_shape_index": (1, "int64", _MANY),
        "parameter_number": (2, "int64", False),
    },
    "Donors": {
        "entries": (1, "Donor", _MANY),
    },
    "Donor": {
        "parameter_number": (1, "int64", False),
    },
    "FrameIndex": {
        "file_names": (1, "string", _MANY),
        "function_names": (2, "string", _MANY),
        "file_locations": (3, "FileLocation", _MANY),
        "stack_frames": (4, "StackFrame", _MANY),
    },
    "FileLocation": {
        "file_name_id": (1, "int32", False),
        "function_name_id": (2, "int32", False),
        "line": (3, "int32", False),
    },
    "StackFrame": {
        "file_location_id": (1, "int32", False),
        "parent_frame_id": (2, "int32", False),
    },
    "Computation": {
        "name": (1, "string", False),
        "instructions": (2, "Instruction", _MANY),
        "program_shape": (4, "ProgramShape", False),
        "id": (5, "int64", False),
        "root_id": (6, "int64", False),
    },
    "Instruction": {
        "name": (1, "string", False),
        "opcode": (2, "string", False),
        "shape": (3, "Shape", False),
        "metadata": (7, "Metadata", False),
        "literal": (8, "Literal", False),
        "parameter_number": (9, "int64", False),
        "tuple_index": (13, "int64", False),
        "dimensions": (14, "int64", _MANY),
        "window": (15, "Window", False),
        "convolution_dimension_numbers": (16, "ConvDims", False),
        "slice_dimensions": (17, "SliceDims", _MANY),
        "channel_id": (26, "int64", False),
        "custom_call_target": (28, "string", False),
        "dot_dimension_numbers": (30, "DotDims", False),
        "id": (35, "int64", False),
        "operand_ids": (36, "int64", _MANY),
        "called_computation_ids": (38, "int64", _MANY),
        "sharding": (40, "Sharding", False),
        "backend_config": (43, "bytes", False),
        "batch_group_count": (52, "int64", False),
        "comparison_direction": (63, "string", False),
    },
    "Sharding": {
        "type": (1, "int32", False),
        "tile_assignment_dimensions": (3, "int64", _MANY),
        "tile_assignment_devices": (4, "int64", _MANY),
        "tuple_shardings": (5, "Sharding", _MANY),
        "replicate_on_last_tile_dim": (6, "bool", False),
        "iota_reshape_dims": (9, "int64", _MANY),
        "iota_transpose_perm": (10, "int32", _MANY),
    },
    "Shape": {
        "element_type": (2, "int32", False),
        "dimensions": (3, "int64", _MANY),
        "tuple_shapes": (4, "Shape", _MANY),
        "layout": (5, "Layout", False),
    },
    "Layout": {
        "minor_to_major": (1, "int64", _MANY),
        "tiles": (6, "Tile", _MANY),
        "memory_space": (8, "int64", False),
    },
    "Tile": {
        "dimensions": (1, "int64", _MANY),
    },
    "Metadata": {
        "op_type": (1, "string", False),
        "op_name": (2, "string", False),
        "source_file": (3, "string", False),
        "source_line": (4, "int32", False),
        "stack_frame_id": (15, "int32", False),
    },
    "Literal": {
        "shape": (1, "Shape", False),
        "preds": (2, "bool", _MANY),
        "s32s": (4, "int32", _MANY),
        "s64s": (5, "int64", _MANY),
        "u32s": (6, "uint32", _MANY),
        "u64s": (7, "uint64", _MANY),
        "f32s": (8, "float", _MANY),
        "f64s": (9, "double", _MANY),
        "f16s": (10, "bytes", False),
        "c64s": (12, "float", _MANY),
        "bf16s": (13, "bytes", False),
        "c128s": (18, "double", _MANY),
    },
    "Window": {
        "dimensions": (1, "WindowDim", _MANY),
    },
    "WindowDim": {
        "size": (1, "int64", False),
        "stride": (2, "int64", False),
        "padding_low": (3, "int64", False),
        "padding_high": (4, "int64", False),
        "window_dilation": (5, "int64", False),
        "base_dilation": (6, "int64", False),
    },
    "ConvDims": {
        "kernel_input_feature_dimension": (3, "int64", False),
        "kernel_output_feature_dimension": (4, "int64", False),
        "kernel_spatial_dimensions": (6, "int64", _MANY),
        "input_spatial_dimensions": (11, "int64", _MANY),
        "output_spatial_dimensions": (12, "int64", _MANY),
    },
    "DotDims": {
        "lhs_contracting_dimensions": (1, "int64", _MANY),
        "rhs_contracting_dimensions": (2, "int64", _MANY),
        "lhs_batch_dimensions": (3, "int64", _MANY),
        "rhs_batch_dimensions": (4, "int64", _MANY),
    },
    "Assignment": {
        "logical_buffers": (1, "Logical", _MANY),
        "buffer_allocations": (3, "Allocation", _MANY),
        "heap_simulator_traces": (4, "Heap", _MANY),
    },
    "Logical": {
        "id": (1, "int64", False),
        "size": (2, "int64", False),
        "defined_at": (3, "Place", False),
        "color": (4, "int64", False),
    },
    "Place": {
        "instruction_name": (2, "string", False),
        "shape_index": (3, "int64", _MANY),
        "instruction_id": (4, "int64", False),
    },
    "Allocation": {
        "index": (1, "int64", False),
        "size": (2, "int64", False),
        "is_thread_local": (3, "bool", False),
        "is_entry_computation_parameter": (5, "bool", False),
        "parameter_number": (6, "int64", False),
        "maybe_live_out": (7, "bool", False),
        "color": (8, "int64", False),
        "assigned": (9, "Assigned", _MANY),
    },
    "Assigned": {
        "logical_buffer_id": (1, "int64", False),
        "offset": (2, "int64", False),
        "size": (3, "int64", False),
    },
    "Heap": {
        "events": (1, "Event", _MANY),
        "buffer_allocation_index": (3, "int64", False),
    },
    "Event": {
        "kind": (1, "int32", False),
        "buffer_id": (2, "int64", False),
        "share_with_canonical_id": (5, "int64", False),
    },
    "SliceDims": {
        "start": (1, "int64", False),
        "limit": (2, "int64", False),
        "stride": (3, "int64", False),
    },
}


@functools.lru_cache(maxsize=1)
def _messages() -> dict[str, Any]:
    # here, because the observed program's Python imports this module, reads no message, and may have no protobuf
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="xla_sim.proto", package="xla_sim", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            entry = declared.field.add(name=name, number=number, label=label)
            entry.type = kinds.TYPE_MESSAGE if kind in _FIELDS else getattr(kinds, f"TYPE_{kind.upper()}")
            if kind in _FIELDS:
                entry.type_name = f".xla_sim.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"xla_sim.{name}")) for name in _FIELDS}


def parse(message: str, data: bytes) -> Any:
    """``parse("Hlo", data)``: a serialized message of that name. Raises ValueError when it is none."""
    parsed = _messages()[message]()
    try:
        parsed.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError has no public home that is the same in all its versions
        raise ValueError(f"not a serialized {message} of HLO: {error}") from error
    return parsed


def donor_parameters(graph: bytes) -> tuple[int, ...]:
    """Arguments whose memory any output may take, by number: HLO's buffer_donor, without what input_output_alias settles."""
    module = parse("Module", graph)
    settled = {entry.parameter_number for entry in module.input_output_alias.entries}
    return tuple(sorted({entry.parameter_number for entry in module.buffer_donor.entries} - settled))
