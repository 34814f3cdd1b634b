/* The compiled prover: message ids and signatures of many notifications at once, those that `TagProver` of
   protocol/proofs.py makes. Nothing here waits, and nothing is kept but the hashed key. */

#include "hmac.h"
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

enum { HMAC_SHA256 = 1, BEFORE = 7, LENGTHS = 24, SIGNATURE = 1 + TAG + KEY_ID };

typedef struct {
    PyObject_HEAD
    PyObject *count;                        /* gives the next counter of this epoch */
    uint32_t epoch;
    unsigned char before[BEFORE], key_id[KEY_ID];
    Hmac key;
} Prover;

typedef struct { const char *serializer, *header; Py_ssize_t nserializer, nheader; } Frames;

/* The tag over what `signing.covered` says. */
static void tag_of(const Prover *o, const Frames *f, const unsigned char msgid[MSGID], const Py_buffer *body,
                   unsigned char tag[TAG]) {
    Sha state = o->key.inner;
    unsigned char front[BEFORE + LENGTHS + KEY_ID], *p = put(front, o->before, BEFORE);
    big(p, KEY_ID, 2);
    big(p + 2, 0, 2);
    big(p + 4, (uint64_t)f->nheader, 4);
    big(p + 8, (uint64_t)f->nserializer, 4);
    big(p + 12, MSGID, 4);
    big(p + 16, (uint64_t)body->len, 8);
    put(p + LENGTHS, o->key_id, KEY_ID);
    crypto.update(&state, front, sizeof front);
    crypto.update(&state, f->header, (size_t)f->nheader);
    crypto.update(&state, f->serializer, (size_t)f->nserializer);
    crypto.update(&state, msgid, MSGID);
    crypto.update(&state, body->buf, (size_t)body->len);
    hmac_end(&o->key, &state, tag);
}

/* (content, signature, message id); None for a time that no id can carry; NULL with an error set. */
static PyObject *proof(const Prover *o, const Frames *f, long long ms, PyObject *content) {
    unsigned char own[OWN], msgid[MSGID], signature[SIGNATURE] = {HMAC_SHA256};
    if (ms < 0 || ms >> 48) Py_RETURN_NONE;
    PyObject *counted = PyObject_CallNoArgs(o->count);
    unsigned long long counter = counted ? PyLong_AsUnsignedLongLong(counted) : 0;
    Py_buffer body;
    Py_XDECREF(counted);
    if (PyErr_Occurred() || PyObject_GetBuffer(content, &body, PyBUF_SIMPLE)) return NULL;
    write_own(own, (uint64_t)ms, counter, o->epoch);
    write_urn(msgid, own);
    tag_of(o, f, msgid, &body, signature + 1);
    PyBuffer_Release(&body);
    put(signature + 1 + TAG, o->key_id, KEY_ID);
    return Py_BuildValue("(Oy#y#)", content, signature, (Py_ssize_t)SIGNATURE, msgid, (Py_ssize_t)MSGID);
}

static PyObject *prover_of(PyObject *self, PyObject *args) {
    Prover *o = (Prover *)self;
    PyObject *headers, *times, *contents;
    Frames f;
    if (!PyArg_ParseTuple(args, "y#O!O!O!", &f.serializer, &f.nserializer, &PyList_Type, &headers, &PyList_Type, &times,
                          &PyList_Type, &contents)) return NULL;
    Py_ssize_t n = PyList_Size(headers);
    if (PyList_Size(times) != n || PyList_Size(contents) != n)
        return PyErr_SetString(PyExc_ValueError, "each header needs a time and a content"), NULL;
    PyObject *proofs = PyList_New(n);
    for (Py_ssize_t i = 0; proofs && i < n; i++) {
        long long ms = PyLong_AsLongLong(PyList_GetItem(times, i));
        f.header = PyBytes_AsString(PyList_GetItem(headers, i));
        f.nheader = f.header ? PyBytes_Size(PyList_GetItem(headers, i)) : 0;
        PyObject *made = PyErr_Occurred() ? NULL : proof(o, &f, ms, PyList_GetItem(contents, i));
        if (made) PyList_SetItem(proofs, i, made);
        else Py_CLEAR(proofs);
    }
    return proofs;
}

static PyObject *prover_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    static char *names[] = {"key", "key_id", "epoch", "count", NULL};
    const char *key, *key_id;
    Py_ssize_t nkey, nkey_id;
    unsigned int epoch;
    PyObject *count;
    if (!PyArg_ParseTupleAndKeywords(args, named, "y#y#IO", names, &key, &nkey, &key_id, &nkey_id, &epoch, &count))
        return NULL;
    if (nkey != KEY || nkey_id != KEY_ID || !crypto.name)
        return PyErr_SetString(PyExc_ValueError, "not a key and key id of a prover"), NULL;
    Prover *o = (Prover *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!o) return NULL;
    o->count = Py_NewRef(count);
    o->epoch = epoch;
    put(o->before, "PZC01\3\1", BEFORE);   /* kind and suite: a notification, HMAC-SHA256 */
    put(o->key_id, key_id, KEY_ID);
    hmac_key(&o->key, (const unsigned char *)key);
    return (PyObject *)o;
}

static void prover_dealloc(PyObject *self) {
    Prover *o = (Prover *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(o->count);
    explicit_bzero(&o->key, sizeof o->key);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef prover_methods[] = {
    {"of", prover_of, METH_VARARGS, "Fresh message ids and signatures of contents with these headers and times."}, {0}};
static PyType_Slot prover_slots[] = {
    {Py_tp_new, (void *)(uintptr_t)prover_new}, {Py_tp_dealloc, (void *)(uintptr_t)prover_dealloc},
    {Py_tp_methods, prover_methods}, {0, NULL}};
static PyType_Spec prover_spec = {"pzc.transport._prover.Prover", sizeof(Prover), 0, Py_TPFLAGS_DEFAULT, prover_slots};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_prover", "The compiled prover.", -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__prover(void) {
    Py_XDECREF(PyImport_ImportModule("_hashlib"));      /* brings the libcrypto of this Python, where it has one */
    PyErr_Clear();
    crypto_find();
    PyObject *m = PyModule_Create(&module), *type = m ? PyType_FromSpec(&prover_spec) : NULL;
    int bad = !type || PyModule_AddObjectRef(m, "Prover", type)
              || PyModule_AddStringConstant(m, "CRYPTO", crypto.name ? crypto.name : "");
    Py_XDECREF(type);
    if (bad) Py_CLEAR(m);
    return m;
}
